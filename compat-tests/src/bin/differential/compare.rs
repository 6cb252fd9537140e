//! Two answers, field by field.

use crate::rules::{self, Mode};
use crate::tree::Node;

/// A field that is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `topics[0].partitions[2].error_code`.
    pub path: String,
    /// What Highwater answered.
    pub ours: String,
    /// What Apache Kafka answered.
    pub kafkas: String,
}

/// All differences between two answers of an API that no rule allows.
pub fn compare(api: &str, ours: &Node, kafkas: &Node) -> Vec<Difference> {
    let mut found = Vec::new();
    Walk { api, found: &mut found }.visit("", ours, kafkas);
    found
}

struct Walk<'a> {
    api: &'a str,
    found: &'a mut Vec<Difference>,
}

impl Walk<'_> {
    fn visit(&mut self, path: &str, ours: &Node, kafkas: &Node) {
        if ours == kafkas || rules::mode(self.api, path).is_some_and(|m| allows(m, ours, kafkas)) {
            return;
        }
        match (ours, kafkas) {
            (Node::Fields(ours), Node::Fields(kafkas)) => {
                self.named(ours, kafkas, |name| join(path, name));
            }
            (Node::List(ours), Node::List(kafkas)) => match rules::key(self.api, path) {
                Some(key) => {
                    let (ours, kafkas) = (keyed(ours, key), keyed(kafkas, key));
                    self.named(&ours, &kafkas, |name| format!("{path}[{name}]"));
                }
                None => self.positional(path, ours, kafkas),
            },
            _ => self.differ(path, Some(ours), Some(kafkas)),
        }
    }

    fn positional(&mut self, path: &str, ours: &[Node], kafkas: &[Node]) {
        for index in 0..ours.len().max(kafkas.len()) {
            let path = format!("{path}[{index}]");
            self.either(&path, ours.get(index), kafkas.get(index));
        }
    }

    fn named(
        &mut self,
        ours: &[(String, Node)],
        kafkas: &[(String, Node)],
        path: impl Fn(&str) -> String,
    ) {
        let find = |fields: &[(String, Node)], name: &str| {
            fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone())
        };
        for (name, value) in ours {
            self.either(&path(name), Some(value), find(kafkas, name).as_ref());
        }
        for (name, value) in kafkas {
            if find(ours, name).is_none() {
                self.either(&path(name), None, Some(value));
            }
        }
    }

    fn either(&mut self, path: &str, ours: Option<&Node>, kafkas: Option<&Node>) {
        match (ours, kafkas) {
            (Some(ours), Some(kafkas)) => self.visit(path, ours, kafkas),
            _ if rules::mode(self.api, path) == Some(Mode::Ignore) => {}
            _ => self.differ(path, ours, kafkas),
        }
    }

    fn differ(&mut self, path: &str, ours: Option<&Node>, kafkas: Option<&Node>) {
        let show = |node: Option<&Node>| node.map_or("absent".to_owned(), ToString::to_string);
        let (ours, kafkas) = (show(ours), show(kafkas));
        self.found.push(Difference { path: path.to_owned(), ours, kafkas });
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Items by the value of a field (or of several, or by themselves); of equal ones the second is
/// numbered, so that none is lost.
fn keyed(items: &[Node], key: &str) -> Vec<(String, Node)> {
    let mut named: Vec<(String, Node)> = Vec::new();
    for item in items {
        let part = |name: &str| match item.field(name) {
            Some(Node::Text(text)) => text.clone(),
            Some(node) => node.to_string(),
            None => item.to_string(),
        };
        let mut name = key.split('+').map(part).collect::<Vec<_>>().join("/");
        let same = named.iter().filter(|(n, _)| n.split('#').next() == Some(&name)).count();
        if same > 0 {
            name = format!("{name}#{same}");
        }
        named.push((name, item.clone()));
    }
    named
}

fn allows(mode: Mode, ours: &Node, kafkas: &Node) -> bool {
    match mode {
        Mode::Ignore => true,
        Mode::SameSign => match (ours.number(), kafkas.number()) {
            (Some(ours), Some(kafkas)) => ours.signum() == kafkas.signum(),
            _ => false,
        },
        Mode::NegativeOrNot => match (ours.number(), kafkas.number()) {
            (Some(ours), Some(kafkas)) => (ours < 0) == (kafkas < 0),
            _ => false,
        },
        Mode::SamePresence => is_nothing(ours) == is_nothing(kafkas),
        Mode::MayAdd => !is_nothing(ours) || is_nothing(kafkas),
    }
}

/// Null, or the id that stands for none.
fn is_nothing(node: &Node) -> bool {
    *node == Node::null() || *node == Node::word(uuid::Uuid::nil())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(debug: &str) -> Node {
        Node::parse(debug).expect("a test's tree can be read")
    }

    fn paths(api: &str, ours: &str, kafkas: &str) -> Vec<String> {
        compare(api, &node(ours), &node(kafkas)).into_iter().map(|d| d.path).collect()
    }

    #[test]
    fn a_difference_names_its_path() {
        let ours = "A { topics: [T { name: \"a\", error_code: 3 }] }";
        let kafkas = "A { topics: [T { name: \"a\", error_code: 17 }] }";
        assert_eq!(paths("X", ours, kafkas), ["topics[0].error_code"]);
    }

    #[test]
    fn a_missing_element_is_a_difference() {
        assert_eq!(paths("X", "A { rows: [1, 2] }", "A { rows: [1] }"), ["rows[1]"]);
        assert_eq!(paths("X", "A { rows: [] }", "A { rows: [1] }"), ["rows[0]"]);
    }

    #[test]
    fn order_counts_except_where_a_rule_names_a_key() {
        let ours = "A { api_keys: [K { api_key: 1, v: 0 }, K { api_key: 2, v: 0 }] }";
        let kafkas = "A { api_keys: [K { api_key: 2, v: 0 }, K { api_key: 1, v: 5 }] }";
        assert_eq!(paths("ApiVersions", ours, kafkas), ["api_keys[1].v"]);
        assert_eq!(paths("X", ours, kafkas).len(), 3);
    }

    #[test]
    fn free_text_may_differ_but_not_be_missing() {
        let (with, without) = ("A { error_message: Some(\"a\") }", "A { error_message: None }");
        assert!(paths("X", with, "A { error_message: Some(\"b\") }").is_empty());
        assert!(paths("X", with, without).is_empty());
        assert_eq!(paths("X", without, with), ["error_message"]);
    }

    #[test]
    fn a_second_element_of_one_key_is_not_lost() {
        let once = "A { api_keys: [K { api_key: 1 }] }";
        let twice = "A { api_keys: [K { api_key: 1 }, K { api_key: 1 }] }";
        assert_eq!(paths("ApiVersions", twice, once), ["api_keys[1#1]"]);
    }
}
