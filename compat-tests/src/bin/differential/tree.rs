//! An answer as a tree: what `{:?}` prints of a message of `kafka-protocol`, read back. All
//! messages derive `Debug`, so one reader of forty lines shows every field of every API.

use std::fmt;

/// A value of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A struct, or a map: names and values in order.
    Fields(Vec<(String, Node)>),
    /// An array.
    List(Vec<Node>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A string.
    Text(String),
    /// A number, a boolean, an id; `null` for nothing.
    Word(String),
}

impl Node {
    /// A number or another bare word.
    pub fn word(value: impl fmt::Display) -> Node {
        Node::Word(value.to_string())
    }

    /// Nothing.
    pub fn null() -> Node {
        Node::word("null")
    }

    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<&Node> {
        let Node::Fields(fields) = self else { return None };
        fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// The number that it is.
    pub fn number(&self) -> Option<i64> {
        let Node::Word(word) = self else { return None };
        word.parse().ok()
    }

    /// Reads what `{:?}` printed.
    pub fn parse(debug: &str) -> Result<Node, String> {
        let mut reader = Reader { text: debug, at: 0 };
        let node = reader.value()?;
        reader.skip_spaces();
        if reader.at == debug.len() { Ok(node) } else { Err(reader.error("the end")) }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Word(word) => f.write_str(word),
            Node::Text(text) => write!(f, "{text:?}"),
            Node::Bytes(bytes) => write!(f, "{} bytes {:02x?}", bytes.len(), bytes),
            Node::List(items) => f.debug_list().entries(items.iter().map(Shown)).finish(),
            Node::Fields(fields) => {
                let fields = fields.iter().map(|(name, value)| (Name(name), Shown(value)));
                f.debug_map().entries(fields).finish()
            }
        }
    }
}

struct Shown<'a>(&'a Node);
impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.0, f)
    }
}

struct Name<'a>(&'a str);
impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn error(&self, wanted: &str) -> String {
        let near: String = self.rest().chars().take(40).collect();
        format!("{wanted} was expected at {near:?}")
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(self.error(token)) }
    }

    fn value(&mut self) -> Result<Node, String> {
        self.skip_spaces();
        if self.take("[") {
            return Ok(Node::List(self.until("]", Self::value)?));
        }
        if self.take("{") {
            return Ok(Node::Fields(self.until("}", Self::entry)?));
        }
        if self.rest().starts_with('"') {
            let bytes = self.quoted()?;
            return Ok(Node::Text(String::from_utf8_lossy(&bytes).into_owned()));
        }
        if self.rest().starts_with("b\"") {
            self.at += 1;
            return Ok(Node::Bytes(self.quoted()?));
        }
        let word = self.bare_word()?;
        if word == "None" {
            return Ok(Node::null());
        }
        if self.take("(") {
            // An Option or another wrapper of one value: the value is what counts.
            let mut inner = self.until(")", Self::value)?;
            return Ok(if inner.len() == 1 { inner.remove(0) } else { Node::List(inner) });
        }
        if self.take("{") {
            return Ok(Node::Fields(self.until("}", Self::entry)?));
        }
        Ok(Node::Word(word))
    }

    fn entry(&mut self) -> Result<(String, Node), String> {
        let name = match self.value()? {
            Node::Word(word) | Node::Text(word) => word,
            _ => return Err(self.error("a name before")),
        };
        self.expect(":")?;
        Ok((name, self.value()?))
    }

    fn until<T>(
        &mut self,
        end: &str,
        item: fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(item(self)?);
            if !self.take(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(items)
    }

    fn bare_word(&mut self) -> Result<String, String> {
        let of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
        let rest = self.rest();
        let length = rest.find(|c| !of_word(c)).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.error("a value"));
        }
        let word = rest[..length].to_owned();
        self.at += length;
        Ok(word)
    }

    /// A string or bytes with Rust's escapes, as bytes.
    fn quoted(&mut self) -> Result<Vec<u8>, String> {
        self.expect("\"")?;
        let mut bytes = Vec::new();
        let mut chars = self.text[self.at..].char_indices();
        while let Some((index, c)) = chars.next() {
            let escaped = match c {
                '"' => {
                    self.at += index + 1;
                    return Ok(bytes);
                }
                '\\' => chars.next().map(|(_, escaped)| escaped),
                c => {
                    bytes.extend(c.to_string().as_bytes());
                    continue;
                }
            };
            let mut hex = |count| -> Option<u32> {
                let digits: String = chars.by_ref().take(count).map(|(_, c)| c).collect();
                u32::from_str_radix(&digits, 16).ok()
            };
            match escaped {
                Some('n') => bytes.push(b'\n'),
                Some('r') => bytes.push(b'\r'),
                Some('t') => bytes.push(b'\t'),
                Some('0') => bytes.push(0),
                Some('x') => bytes.push(hex(2).and_then(|b| u8::try_from(b).ok()).unwrap_or(b'?')),
                Some('u') => {
                    let digits: String =
                        chars.by_ref().skip(1).map(|(_, c)| c).take_while(|c| *c != '}').collect();
                    let c = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                    bytes.extend(c.unwrap_or('?').to_string().as_bytes());
                }
                Some(c) => bytes.extend(c.to_string().as_bytes()),
                None => break,
            }
        }
        Err("a string has no end".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use kafka_protocol::messages::produce_response::{
        PartitionProduceResponse, TopicProduceResponse,
    };
    use kafka_protocol::messages::{MetadataResponse, ProduceResponse};

    fn parsed(value: &impl fmt::Debug) -> Node {
        Node::parse(&format!("{value:?}")).expect("what Debug prints can be read")
    }

    #[test]
    fn every_field_of_a_message_is_in_its_tree() {
        let row = PartitionProduceResponse::default().with_index(-7).with_base_offset(5);
        let topic = TopicProduceResponse::default().with_partition_responses(vec![row]);
        let tree = parsed(&ProduceResponse::default().with_responses(vec![topic]));
        let Some(Node::List(topics)) = tree.field("responses") else { panic!("{tree}") };
        let Some(Node::List(rows)) = topics[0].field("partition_responses") else {
            panic!("{tree}")
        };
        assert_eq!(rows[0].field("index").and_then(Node::number), Some(-7));
        assert_eq!(rows[0].field("base_offset").and_then(Node::number), Some(5));
        assert_eq!(rows[0].field("error_message"), Some(&Node::null()));
        assert!(topics[0].field("topic_id").is_some());
    }

    #[test]
    fn strings_and_bytes_come_back_as_they_were() {
        let text = "a \"quoted\" \\ line\nand ü \u{1}\u{7f}{},";
        assert_eq!(parsed(&text), Node::Text(text.to_owned()));
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(parsed(&Bytes::from(bytes.clone())), Node::Bytes(bytes));
    }

    #[test]
    fn nothing_and_empty_differ() {
        assert_eq!(parsed(&None::<i32>), Node::null());
        assert_eq!(parsed(&Some("")), Node::Text(String::new()));
        assert_eq!(parsed(&Vec::<i32>::new()), Node::List(Vec::new()));
    }

    #[test]
    fn a_cut_off_text_is_refused() {
        let debug = format!("{:?}", MetadataResponse::default());
        for end in 0..debug.len() {
            let cut = Node::parse(&debug[..end]);
            assert!(cut.is_err() || !debug[..end].ends_with('}'), "{}", &debug[..end]);
        }
    }
}
