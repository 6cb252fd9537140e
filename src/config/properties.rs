//! Java's properties format, as `server.properties` is written in it.
//!
//! Pure: no I/O, no clock, no randomness.

/// Reads all pairs, in order; a key may come twice, and then the last one counts.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    let mut lines = text.split(['\n', '\r']);
    while let Some(line) = lines.next() {
        let line = line.trim_start_matches(is_blank);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = line.to_owned();
        while continues(&logical) {
            logical.pop();
            // "\r\n" is split in two: the empty half is no line.
            let Some(next) = lines.find(|next| !next.is_empty()) else { break };
            logical.push_str(next.trim_start_matches(is_blank));
        }
        pairs.push(split(&logical)?);
    }
    Ok(pairs)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Whether the line ends in a backslash that is not itself escaped.
fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Splits at the first separator that is not escaped: `=`, `:` or a blank.
fn split(line: &str) -> Result<(String, String), String> {
    let mut escaped = false;
    let end = line.char_indices().find(|(_, c)| {
        let separates = !escaped && (matches!(c, '=' | ':') || is_blank(*c));
        escaped = !escaped && *c == '\\';
        separates
    });
    let end = end.map_or(line.len(), |(index, _)| index);
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(is_blank);
    Ok((unescape(key)?, unescape(rest)?))
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                let unit = code.and_then(char::from_u32);
                out.push(unit.ok_or_else(|| format!("\\u{digits} is no character in '{text}'"))?);
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).expect("it parses")
    }

    #[track_caller]
    fn one(text: &str) -> (String, String) {
        let mut all = pairs(text);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn the_three_separators_separate() {
        for text in ["a=b", "a:b", "a b", "  a  =  b", "a \t: b", "a\tb", "a=b\r\n", "\n\na=b\n"] {
            assert_eq!(one(text), ("a".into(), "b".into()), "{text:?}");
        }
        assert_eq!(one("a=b=c:d e"), ("a".into(), "b=c:d e".into()));
        assert_eq!(one("a"), ("a".into(), String::new()));
        assert_eq!(one("a="), ("a".into(), String::new()));
    }

    #[test]
    fn comments_and_blank_lines_say_nothing() {
        assert_eq!(pairs("# a=b\n!c=d\n   \n\t# e=f\\\ng=h"), vec![("g".into(), "h".into())]);
    }

    #[test]
    fn a_backslash_continues_the_line() {
        for text in ["a=b,\\\n   c", "a=b,\\\r\n   c", "a=b,\\\rc"] {
            assert_eq!(one(text), ("a".into(), "b,c".into()), "{text:?}");
        }
        assert_eq!(pairs("a=b\\\\\nc=d").len(), 2);
        assert_eq!(one("a=b\\"), ("a".into(), "b".into()));
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(one("a\\=b\\:c\\ d=x\\ty\\u00e9\\q"), ("a=b:c d".into(), "x\tyéq".into()));
        assert!(parse("a=\\u12").is_err());
        assert!(parse("a=\\uZZZZ").is_err());
    }
}
