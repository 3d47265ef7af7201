//! What can be wrong with a watch, by name, and which of it is worth a line in the log.

use std::error::Error as _;

use kube::core::Status;
use kube::runtime::watcher;
use rustc_hash::FxHashSet;

pub use crate::telemetry::Problem;

impl Problem {
    /// The problem behind an error.
    pub(super) fn of(error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Self::of_request(error),
            watcher::Error::WatchError(status) => Self::of_status(status),
            watcher::Error::NoResourceVersion => Self::Other,
        }
    }

    fn of_request(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            // The set of errors is not closed, and most of what is not an answer is a connection.
            kube::Error::HyperError(_)
            | kube::Error::Service(_)
            | kube::Error::ReadEvents(_)
            | kube::Error::RustlsTls(_) => Self::Unreachable,
            _ => Self::Other,
        }
    }

    fn of_status(status: &Status) -> Self {
        match (status.code, status.reason.as_str()) {
            (401 | 403, _) | (0, "Unauthorized" | "Forbidden") => Self::Refused,
            (404, _) | (0, "NotFound") => Self::NotFound,
            (410, _) | (0, "Expired" | "Gone") => Self::Gone,
            (429, _) | (0, "TooManyRequests") => Self::Throttled,
            (502..=504, _) | (0, "ServiceUnavailable" | "Timeout") => Self::Unreachable,
            _ => Self::Other,
        }
    }
}

/// What the error says, causes included, on one line.
pub(super) fn words(error: &watcher::Error) -> String {
    let answer = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    };
    let text = match answer {
        // kube's own text has the answer three times, once as a dump of its structure.
        Some(status) => format!("{} ({} {})", status.message, status.code, status.reason),
        None => with_causes(error),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The connection's errors say why only in their causes.
fn with_causes(error: &watcher::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Tells a new problem from the same one again.
#[derive(Debug, Default)]
pub(super) struct News {
    known: FxHashSet<(Problem, String)>,
}

impl News {
    /// More different texts than this at a time are not a problem that a log can tell of.
    const MOST: usize = 16;

    /// Whether this problem was not told of since all was well.
    ///
    /// Numbers do not make a difference: ports and resource versions are new each time.
    pub fn is_new(&mut self, problem: Problem, words: &str) -> bool {
        let words = words.chars().filter(|c| !c.is_ascii_digit()).collect();
        self.known.len() < Self::MOST && self.known.insert((problem, words))
    }

    /// All is well. Returns whether it was not before.
    pub fn well(&mut self) -> bool {
        !std::mem::take(&mut self.known).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn status(code: u16, reason: &str) -> Box<Status> {
        Status::failure("the message", reason).with_code(code).boxed()
    }

    #[rstest]
    #[case(401, "Unauthorized", Problem::Refused)]
    #[case(403, "Forbidden", Problem::Refused)]
    #[case(404, "NotFound", Problem::NotFound)]
    #[case(404, "Failed to parse error data", Problem::NotFound)]
    #[case(410, "Expired", Problem::Gone)]
    #[case(0, "Expired", Problem::Gone)]
    #[case(429, "TooManyRequests", Problem::Throttled)]
    #[case(500, "InternalError", Problem::Other)]
    #[case(503, "ServiceUnavailable", Problem::Unreachable)]
    #[case(504, "Timeout", Problem::Unreachable)]
    fn an_answer_has_its_problem_wherever_it_comes(
        #[case] code: u16,
        #[case] reason: &str,
        #[case] problem: Problem,
    ) {
        let error = || kube::Error::Api(status(code, reason));
        for error in [
            watcher::Error::InitialListFailed(error()),
            watcher::Error::WatchStartFailed(error()),
            watcher::Error::WatchFailed(error()),
            watcher::Error::WatchError(status(code, reason)),
        ] {
            assert_eq!(Problem::of(&error), problem, "{error}");
        }
    }

    #[test]
    fn a_connection_s_error_is_told_with_its_causes() {
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "refused\nhere");
        let error = watcher::Error::InitialListFailed(kube::Error::Service(refused.into()));
        assert_eq!(Problem::of(&error), Problem::Unreachable);
        assert_eq!(
            words(&error),
            "failed to perform initial object list: ServiceError: refused here"
        );
    }

    #[test]
    fn an_answer_is_told_once_with_its_code_and_reason() {
        let error = watcher::Error::InitialListFailed(kube::Error::Api(status(403, "Forbidden")));
        assert_eq!(words(&error), "the message (403 Forbidden)");
    }

    #[test]
    fn a_problem_is_news_once_until_all_was_well() {
        let mut news = News::default();
        assert!(!news.well());
        assert!(news.is_new(Problem::Gone, "too old: 12 (34)"));
        assert!(!news.is_new(Problem::Gone, "too old: 56 (78)"));
        assert!(news.is_new(Problem::Gone, "too new: 56 (78)"));
        assert!(news.is_new(Problem::Refused, "too old: 12 (34)"));
        assert!(news.well());
        assert!(news.is_new(Problem::Gone, "too old: 12 (34)"));
    }

    #[test]
    fn a_server_that_says_something_else_each_time_does_not_fill_log_and_memory() {
        let mut news = News::default();
        let told = ('!'..='~').filter(|c| news.is_new(Problem::Other, &c.to_string())).count();
        assert_eq!(told, News::MOST);
    }

    #[test]
    fn each_problem_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> =
            Problem::ALL.iter().map(|p| p.as_str()).collect();
        assert_eq!(names.len(), Problem::ALL.len());
    }
}
