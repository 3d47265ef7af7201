//! The closed sets that metrics are labelled with.

/// A closed set of label values: an enum, every member of it, and the text of each.
macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$member_doc])* $member,)+ }

        impl $name {
            /// Every member.
            pub const ALL: &[Self] = &[$(Self::$member),+];

            /// The member as metrics and log lines spell it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$member => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl prometheus_client::encoding::EncodeLabelValue for $name {
            fn encode(
                &self,
                encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>,
            ) -> std::fmt::Result {
                std::fmt::Write::write_str(encoder, self.as_str())
            }
        }
    };
}
pub(crate) use labels;

labels! {
    /// The kind of object that something was done for.
    Kind {
        /// `IPAddressClaim`.
        Claim = "claim",
        /// `IPAddress`.
        Address = "address",
        /// `IPAddressClass`.
        Class = "class",
    }
}

labels! {
    /// What a write does.
    Verb {
        /// An object is made.
        Create = "create",
        /// An object is changed.
        Patch = "patch",
        /// An object's status is changed.
        PatchStatus = "patch_status",
        /// An object is deleted.
        Delete = "delete",
    }
}

labels! {
    /// What the API server answered.
    Status {
        /// It was done.
        Ok = "ok",
        /// The object had changed since it was read (409).
        Conflict = "conflict",
        /// There is no such object (404, 410).
        NotFound = "not_found",
        /// It may not be done, or never as it was asked (every other 4xx).
        Refused = "refused",
        /// Not now (429).
        Throttled = "throttled",
        /// The server failed (5xx), or answered with what cannot be read.
        ServerError = "server_error",
        /// No answer: whether it was done is not known.
        Unreachable = "unreachable",
    }
}

labels! {
    /// What became of a Kubernetes event.
    EventResult {
        /// The API server has it.
        Sent = "sent",
        /// The queue was full, or events are refused altogether.
        Dropped = "dropped",
        /// The API server did not take it.
        Failed = "failed",
    }
}

labels! {
    /// Why a list or a watch did not go on.
    Problem {
        /// The API server does not let us: a right is missing, or it does not know who we are.
        Refused = "refused",
        /// The API server does not know the kind: its `CustomResourceDefinition` is missing.
        NotFound = "not_found",
        /// Where we stopped is too long ago; everything is listed again. Part of normal life.
        Gone = "gone",
        /// Nobody answers, or somebody answers in the API server's place.
        Unreachable = "unreachable",
        /// The API server has too much to do.
        Throttled = "throttled",
        /// Anything else; the log has the words.
        Other = "other",
    }
}

impl Status {
    /// The class of an answer.
    pub fn of<T>(answer: &Result<T, kube::Error>) -> Self {
        answer.as_ref().map_or_else(Self::of_error, |_| Self::Ok)
    }

    /// The class of an error.
    pub fn of_error(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_code(status.code),
            // The answer came, so the request was carried out; it only could not be read.
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => Self::ServerError,
            // A request that cannot be built is never sent.
            kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => Self::Refused,
            _ => Self::Unreachable,
        }
    }

    /// The class of an HTTP status code.
    pub fn of_code(code: u16) -> Self {
        match code {
            200..=399 => Self::Ok,
            409 => Self::Conflict,
            404 | 410 => Self::NotFound,
            429 => Self::Throttled,
            400..=499 => Self::Refused,
            _ => Self::ServerError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16) -> kube::Error {
        kube::Error::Api(kube::core::Status::failure("", "").with_code(code).boxed())
    }

    #[test]
    fn every_answer_has_a_class() {
        for (code, status) in [
            (400, Status::Refused),
            (403, Status::Refused),
            (404, Status::NotFound),
            (409, Status::Conflict),
            (410, Status::NotFound),
            (422, Status::Refused),
            (429, Status::Throttled),
            (500, Status::ServerError),
            (504, Status::ServerError),
        ] {
            assert_eq!(Status::of::<()>(&Err(api(code))), status, "{code}");
        }
        assert_eq!(Status::of(&Ok(())), Status::Ok);
        assert_eq!(
            Status::of_error(&kube::Error::Service("timed out".into())),
            Status::Unreachable
        );
    }

    #[test]
    fn label_values_are_distinct() {
        let distinct = |all: Vec<&str>| {
            let count = all.len();
            all.into_iter().collect::<std::collections::BTreeSet<_>>().len() == count
        };
        assert!(distinct(Status::ALL.iter().map(|s| s.as_str()).collect()));
        assert!(distinct(Problem::ALL.iter().map(|s| s.as_str()).collect()));
        assert!(distinct(Verb::ALL.iter().map(|s| s.as_str()).collect()));
    }
}
