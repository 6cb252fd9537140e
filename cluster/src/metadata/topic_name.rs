//! What a topic may be called (`org.apache.kafka.common.internals.Topic`).
//!
//! Pure: no I/O, no clock, no randomness.

use super::image::MetadataImage;

/// Longest name, so that a directory of Kafka's could bear it with the partition's number.
pub const MAX_TOPIC_NAME_LEN: usize = 249;

/// Says why a name is refused.
pub fn validate(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a topic name must not be empty".to_owned());
    }
    if name == "." || name == ".." {
        return Err(format!("a topic must not be called '{name}'"));
    }
    if name.len() > MAX_TOPIC_NAME_LEN {
        return Err(format!(
            "the topic name has {} characters, at most {MAX_TOPIC_NAME_LEN} are allowed: '{name}'",
            name.len()
        ));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.chars().all(allowed) {
        return Err(format!(
            "'{name}' has characters other than ASCII letters, digits, '.', '_' and '-'"
        ));
    }
    Ok(())
}

/// Another topic whose name differs in nothing but `.` and `_`: metrics could not tell them apart.
#[must_use]
pub fn colliding<'a>(image: &'a MetadataImage, name: &str) -> Option<&'a str> {
    if !name.contains(['.', '_']) {
        return None;
    }
    image.topics.keys().map(String::as_str).find(|other| *other != name && collide(other, name))
}

/// Whether two names are the same but for `.` and `_`.
#[must_use]
pub fn collide(a: &str, b: &str) -> bool {
    let unified = |byte: u8| if byte == b'.' { b'_' } else { byte };
    a.len() == b.len() && a.bytes().zip(b.bytes()).all(|(x, y)| unified(x) == unified(y))
}
