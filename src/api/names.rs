//! Which texts can be names of objects.
//!
//! Claims and addresses name each other in fields that take any text: the selection, `claimRef`,
//! `status.addresses`, the pin. A text that no object can have as its name is never put into a
//! request's path, where it would be something else: nothing of that name exists, and that is known
//! without asking.

/// The longest name of an object, in bytes.
pub const OBJECT_NAME_LIMIT: usize = 253;

/// The longest name of a namespace, in bytes.
const NAMESPACE_NAME_LIMIT: usize = 63;

/// Whether an object of our kinds can have this name: a DNS subdomain as of RFC 1123, in lower case.
#[must_use]
pub fn is_object_name(text: &str) -> bool {
    text.len() <= OBJECT_NAME_LIMIT && text.split('.').all(is_label)
}

/// Whether a namespace can have this name: a DNS label as of RFC 1123, in lower case.
#[must_use]
pub fn is_namespace_name(text: &str) -> bool {
    text.len() <= NAMESPACE_NAME_LIMIT && is_label(text)
}

fn is_label(text: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.into_iter().all(|end| end.is_some_and(alphanumeric))
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a")]
    #[case("0")]
    #[case("p-7")]
    #[case("203.0.113.7")]
    #[case("a--b.c")]
    fn what_a_server_takes_is_a_name(#[case] name: &str) {
        assert!(is_object_name(name));
    }

    #[rstest]
    #[case("")]
    #[case(".")]
    #[case("..")]
    #[case("a.")]
    #[case(".a")]
    #[case("a..b")]
    #[case("-a")]
    #[case("a-")]
    #[case("a.-b")]
    #[case("A")]
    #[case("é")]
    #[case("a b")]
    #[case("a/b")]
    #[case("a?b")]
    #[case("?watch=true")]
    #[case("a#b")]
    #[case("a%2e")]
    #[case("a_b")]
    #[case("a\n")]
    fn what_means_something_in_a_path_is_none(#[case] text: &str) {
        assert!(!is_object_name(text));
        assert!(!is_namespace_name(text));
    }

    #[test]
    fn a_name_is_as_long_as_the_server_takes_it() {
        assert!(is_object_name(&"a".repeat(253)));
        assert!(!is_object_name(&"a".repeat(254)));
        assert!(is_namespace_name(&"a".repeat(63)));
        assert!(!is_namespace_name(&"a".repeat(64)));
        assert!(!is_namespace_name("a.b"));
    }
}
