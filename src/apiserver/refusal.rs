//! Why a request came to nothing: a closed set, by what is to be done about it.

use std::error::Error as _;

/// A request that was not answered as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The object is not as it was when the write was decided on. Not an error: look again.
    #[error("the object has changed")]
    Conflict,
    /// The object is not there.
    #[error("the object does not exist")]
    Absent,
    /// The API server says no, and will say so again until somebody changes something.
    #[error("the API server refuses: {0}")]
    Denied(String),
    /// It was not asked: this replica may not write at this moment.
    #[error("the work is another replica's")]
    Fenced,
    /// No answer, or none that says what became of the request. It may have taken effect.
    #[error("no usable answer: {0}")]
    Unanswered(String),
}

impl Refusal {
    /// Sorts what the client says.
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                404 => Self::Absent,
                409 => Self::Conflict,
                // A token that expires is renewed by the kubelet.
                401 | 429 | 500.. => Self::Unanswered(status.message.clone()),
                _ => Self::Denied(status.message.clone()),
            },
            other => Self::Unanswered(with_causes(other)),
        }
    }
}

/// The connection's errors say why only in their causes.
fn with_causes(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(404, Refusal::Absent)]
    #[case(409, Refusal::Conflict)]
    #[case(400, Refusal::Denied("no".into()))]
    #[case(403, Refusal::Denied("no".into()))]
    #[case(422, Refusal::Denied("no".into()))]
    #[case(401, Refusal::Unanswered("no".into()))]
    #[case(429, Refusal::Unanswered("no".into()))]
    #[case(500, Refusal::Unanswered("no".into()))]
    #[case(503, Refusal::Unanswered("no".into()))]
    #[case(504, Refusal::Unanswered("no".into()))]
    fn an_answer_is_sorted_by_what_is_to_be_done(#[case] code: u16, #[case] refusal: Refusal) {
        let error = kube::Error::Api(Status::failure("no", "").with_code(code).boxed());
        assert_eq!(Refusal::of(&error), refusal);
    }

    /// A time-out is never "gone".
    #[test]
    fn a_broken_connection_is_no_answer() {
        let cut = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "cut");
        let refusal = Refusal::of(&kube::Error::Service(cut.into()));
        assert!(matches!(&refusal, Refusal::Unanswered(why) if why.contains("cut")), "{refusal}");
    }
}
