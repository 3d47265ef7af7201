//! How much text the API takes, and cutting what is longer.

/// The longest message of a condition, in bytes; the API counts characters, which are never more.
pub const CONDITION_MESSAGE_LIMIT: usize = 32_768;

/// The longest note of an event, in bytes.
pub const EVENT_NOTE_LIMIT: usize = 1024;

/// Cuts a text to at most so many bytes, between two characters, and marks where.
pub fn cut(text: &mut String, limit: usize) {
    const MARK: &str = "…";
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit.saturating_sub(MARK.len())));
        text.push_str(MARK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        for text in ["x".repeat(2000), "é".repeat(600), "語".repeat(400), "🙂".repeat(300)] {
            let mut note = text.clone();
            cut(&mut note, 1024);
            assert!(note.len() <= 1024 && note.len() > 1024 - 8, "{}", note.len());
            assert!(note.ends_with('…') && text.starts_with(note.trim_end_matches('…')));
        }
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let mut fits = "y".repeat(1024);
        cut(&mut fits, 1024);
        assert_eq!(fits, "y".repeat(1024));
    }
}
