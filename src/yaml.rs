//! Reading and writing YAML: the only user of the YAML library, so that it can be swapped.

use std::{cell::Cell, collections::BTreeSet, fmt};

use serde::{
    Deserialize as _, Deserializer, Serialize,
    de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

mod portable;

pub use portable::{to_portable_string, write_entry};

/// A text that is not the YAML expected, with line and column where the library knows them.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(serde_yaml::Error);

impl YamlError {
    /// Line of the fault, counted from 1.
    pub fn line(&self) -> Option<usize> {
        self.0.location().map(|at| at.line())
    }
}

/// A text without what editors and generators leave around its documents: a byte order mark, and
/// markers at the end after which nothing comes.
fn with_content(text: &str) -> &str {
    let says_nothing = |line: &str| line.is_empty() || line.starts_with('#') || line == "...";
    let mut text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // At the beginning of a line nothing else than a marker can look like this.
    while let Some(at) = text.rfind("\n---") {
        let (before, after) = (&text[..=at], &text[at + "\n---".len()..]);
        if !after.lines().map(str::trim).all(says_nothing) {
            break;
        }
        text = before;
    }
    text
}

/// Reads one document; merge keys (`<<`) are applied.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    let mut value: serde_yaml::Value =
        serde_yaml::from_str(with_content(text)).map_err(YamlError)?;
    value.apply_merge().map_err(YamlError)?;
    serde_yaml::from_value(value).map_err(YamlError)
}

/// Reads all documents of a text, in their order; merge keys (`<<`) are applied, empty ones left out.
pub fn all_from_str(text: &str) -> Result<Vec<Value>, YamlError> {
    let mut documents = Vec::new();
    for document in serde_yaml::Deserializer::from_str(with_content(text)) {
        let mut value = serde_yaml::Value::deserialize(document).map_err(YamlError)?;
        value.apply_merge().map_err(YamlError)?;
        documents.push(serde_yaml::from_value(value).map_err(YamlError)?);
    }
    documents.retain(|document: &Value| !document.is_null());
    Ok(documents)
}

/// Writes one document.
pub fn to_string<T: Serialize>(value: &T) -> Result<String, YamlError> {
    serde_yaml::to_string(value).map_err(YamlError)
}

/// One document that remembers where each of its nodes stands, for messages that name a line.
#[derive(Clone, Debug)]
pub struct Document {
    text: String,
    /// Its outermost node.
    pub root: Node,
}

/// A place in a [`Document`]: its how-manieth node, in the order of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(usize);

/// One value of a document.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub content: Content,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Content {
    /// Nothing, a truth value, a number or a text.
    Scalar(Value),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the text; no key stands there twice.
    Map(Vec<Entry>),
}

/// One key of a mapping and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where the key stands.
    pub place: Place,
    /// The key; a number or truth value is taken as its text.
    pub key: String,
    /// Its value.
    pub value: Node,
}

impl Document {
    /// Reads one document. Merge keys (`<<`) are applied; a key that stands in a mapping twice is
    /// refused.
    pub fn parse(text: &str) -> Result<Self, YamlError> {
        let counter = Counter { next: Cell::new(0), fail_at: None };
        let text = with_content(text);
        let de = serde_yaml::Deserializer::from_str(text);
        let root = Seed(&counter).deserialize(de).map_err(YamlError)?;
        Ok(Self { text: text.to_owned(), root })
    }

    /// The line of a place, counted from 1.
    ///
    /// The library tells a position only with an error, so the text is read again up to the place,
    /// where reading fails. That is slow, and done only for the few places that are shown.
    pub fn line(&self, place: Place) -> usize {
        let counter = Counter { next: Cell::new(0), fail_at: Some(place) };
        let de = serde_yaml::Deserializer::from_str(&self.text);
        let error = Seed(&counter).deserialize(de).err();
        error.and_then(|error| error.location()).map_or(1, |at| at.line())
    }
}

impl Node {
    /// The value without its places.
    pub fn to_value(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::to_value).collect(),
            Content::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.to_value()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }

    /// The value under a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Content::Map(entries) = &self.content else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }
}

/// Counts nodes while they are read, and may stop at one.
struct Counter {
    next: Cell<usize>,
    fail_at: Option<Place>,
}

impl Counter {
    fn next<E: serde::de::Error>(&self) -> Result<Place, E> {
        let place = Place(self.next.get());
        self.next.set(place.0 + 1);
        if self.fail_at == Some(place) { Err(E::custom("here")) } else { Ok(place) }
    }
}

/// Reads one node.
struct Seed<'a>(&'a Counter);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value without a tag")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Node, E> {
        self.scalar(Value::Null)
    }

    /// An empty document.
    fn visit_none<E: serde::de::Error>(self) -> Result<Node, E> {
        self.scalar(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Node, E> {
        self.scalar(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Node, E> {
        self.scalar(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Node, E> {
        self.scalar(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        self.scalar(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Node, E> {
        self.scalar(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let place = self.0.next()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed(self.0))? {
            list.push(item);
        }
        Ok(Node { place, content: Content::List(list) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let place = self.0.next()?;
        let mut entries = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some((place, key)) = map.next_key_seed(KeySeed(self.0, &mut seen))? {
            let value = map.next_value_seed(Seed(self.0))?;
            entries.push(Entry { place, key, value });
        }
        let entries = merged(entries).map_err(A::Error::custom)?;
        Ok(Node { place, content: Content::Map(entries) })
    }
}

impl Seed<'_> {
    fn scalar<E: serde::de::Error>(self, value: impl Into<Value>) -> Result<Node, E> {
        Ok(Node { place: self.0.next()?, content: Content::Scalar(value.into()) })
    }
}

/// Reads one key; fails, at the key, if it was there before.
struct KeySeed<'a>(&'a Counter, &'a mut BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = (Place, String);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = (Place, String);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that is text")
    }

    fn visit_bool<E: serde::de::Error>(self, key: bool) -> Result<Self::Value, E> {
        self.visit_str(&key.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, key: i64) -> Result<Self::Value, E> {
        self.visit_str(&key.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, key: u64) -> Result<Self::Value, E> {
        self.visit_str(&key.to_string())
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        let place = self.0.next()?;
        if !self.1.insert(key.to_owned()) {
            return Err(E::custom(format_args!("the key {key:?} is there twice; remove one")));
        }
        Ok((place, key.to_owned()))
    }
}

/// Applies a merge key: what the mapping itself says wins, then the first of those merged in.
fn merged(entries: Vec<Entry>) -> Result<Vec<Entry>, &'static str> {
    const WRONG: &str = "<< merges a mapping, or a list of mappings";
    let (merges, mut entries): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| entry.key == "<<");
    for merge in merges {
        let sources = match merge.value.content {
            Content::List(sources) => sources,
            content => vec![Node { place: merge.place, content }],
        };
        for source in sources {
            let Content::Map(more) = source.content else { return Err(WRONG) };
            for entry in more {
                if entries.iter().all(|own| own.key != entry.key) {
                    entries.push(entry);
                }
            }
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "\
# a comment
name: x
list:
- {a: 1, b: [2.5, true]}
-
  c: null
text: |
  two
  lines
last: 'end'
";

    #[test]
    fn a_document_is_the_same_value_as_without_places() {
        let document = Document::parse(TEXT).unwrap();
        assert_eq!(document.root.to_value(), from_str::<Value>(TEXT).unwrap());
    }

    #[test]
    fn every_node_knows_its_line() {
        let document = Document::parse(TEXT).unwrap();
        let line = |node: &Node| document.line(node.place);
        let root = &document.root;
        assert_eq!(line(root), 2);
        assert_eq!(line(root.get("name").unwrap()), 2);
        let Content::List(list) = &root.get("list").unwrap().content else { panic!("a list") };
        assert_eq!((line(&list[0]), line(&list[1])), (4, 6));
        assert_eq!(line(list[1].get("c").unwrap()), 6);
        assert_eq!(line(root.get("last").unwrap()), 10);
        let Content::Map(entries) = &root.content else { panic!("a mapping") };
        assert_eq!(document.line(entries[3].place), 10, "of the key");
    }

    #[test]
    fn anchors_and_merge_keys_are_applied() {
        let text = "base: &b {x: 1, y: 2}\na: {<<: *b, y: 3}\nb: {<<: [{y: 4}, *b]}\nc: *b\n";
        let document = Document::parse(text).unwrap();
        let expected = json!({
            "base": {"x": 1, "y": 2}, "a": {"x": 1, "y": 3}, "b": {"x": 1, "y": 4}, "c": {"x": 1, "y": 2},
        });
        assert_eq!(document.root.to_value(), expected);
        let merged = document.root.get("a").unwrap().get("y").unwrap();
        assert_eq!(document.line(merged.place), 2);
    }

    #[test]
    fn what_is_no_plain_document_is_refused_with_its_line() {
        for (text, line, sentence) in [
            ("a: 1\nb:\n  c: 2\n  c: 3\n", Some(4), "the key \"c\" is there twice"),
            ("a: 1\nb: !thing 2\n", Some(2), "a value without a tag"),
            ("a: 1\n? [x]\n: 2\n", Some(2), "a key that is text"),
            ("a: 1\nb: [\n", Some(3), "did not find expected"),
            ("a: 1\nb: {<<: 7}\n", Some(2), "<< merges a mapping"),
            ("a: 1\n---\nb: 2\n", None, "more than one document"),
        ] {
            let error = Document::parse(text).unwrap_err();
            assert!(error.to_string().contains(sentence), "{text}: {error}");
            assert_eq!(error.line(), line, "{text}: {error}");
        }
    }

    #[test]
    fn a_byte_order_mark_and_empty_documents_at_the_end_say_nothing() {
        for text in [
            "\u{feff}a: 1\n",
            "a: 1\n---\n",
            "a: 1\n---",
            "---\na: 1\n---\n---\n",
            "a: 1\n--- # the end\n# of it\n...\n\n",
            "\u{feff}---\r\na: 1\r\n---\r\n",
        ] {
            assert_eq!(from_str::<Value>(text).unwrap(), json!({"a": 1}), "{text:?}");
            assert_eq!(Document::parse(text).unwrap().root.to_value(), json!({"a": 1}), "{text:?}");
            assert_eq!(all_from_str(text).unwrap(), [json!({"a": 1})], "{text:?}");
        }
        for text in ["a: 1\n---\nb: 2\n---\n", "a: 1\n--- b\n"] {
            assert!(from_str::<Value>(text).is_err(), "{text:?}");
        }
        assert_eq!(from_str::<Value>("a: |\n  x\n  ---\n").unwrap(), json!({"a": "x\n---\n"}));
        assert_eq!(from_str::<Value>("---\n---\n").unwrap(), Value::Null);
    }

    #[test]
    fn all_documents_of_a_text_are_read() {
        let read = all_from_str("---\na: 1\n---\n# nothing\n---\nb: [2]\n").unwrap();
        assert_eq!(read, [json!({"a": 1}), json!({"b": [2]})]);
        assert!(all_from_str("a: 1\n---\nb: [\n").is_err());
        assert_eq!(all_from_str("").unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn keys_that_are_numbers_are_text() {
        let document = Document::parse("1: a\ntrue: b\n-2: c\n").unwrap();
        assert_eq!(document.root.to_value(), json!({"1": "a", "true": "b", "-2": "c"}));
    }
}
