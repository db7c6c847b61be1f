//! A small reader of Rust source text: enough to tell code from comments and strings, to leave out
//! test modules, and to find functions. It does not need to understand more than the rules ask.

use super::repository::{ends_in, files};

/// One source file in two forms of equal length and equal lines.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Path from the repository's root, with `/`.
    pub(crate) path: String,
    /// As written.
    pub(crate) text: String,
    /// Comments, contents of strings and `#[cfg(test)]` items replaced by blanks.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = blank_tests(&blank(text));
        assert_eq!(code.len(), text.len(), "{path}: blanking must keep every byte's place");
        Self { path: path.to_owned(), text: text.to_owned(), code }
    }

    /// Line number, from 1, of a byte.
    pub(crate) fn line_of(&self, byte: usize) -> usize {
        self.text[..byte].matches('\n').count() + 1
    }

    /// Places where `word` stands alone, that is, not as a part of a longer name.
    pub(crate) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
            let before = self.code[..at].chars().next_back();
            let after = self.code[at + word.len()..].chars().next();
            !before.is_some_and(is_name) && !after.is_some_and(is_name)
        })
    }

    /// Whether the `word` at `at` is called as a method.
    pub(crate) fn is_method_call(&self, at: usize, word: &str) -> bool {
        self.before(at).ends_with('.') && self.after(at + word.len()).starts_with('(')
    }

    /// The code after `byte`, without leading blanks.
    pub(crate) fn after(&self, byte: usize) -> &str {
        self.code[byte..].trim_start()
    }

    /// The code before `byte`, without trailing blanks.
    pub(crate) fn before(&self, byte: usize) -> &str {
        self.code[..byte].trim_end()
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where the reader is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Code,
    LineComment,
    BlockComment(usize),
    Text,
    RawText(usize),
}

/// Replaces comments and the contents of strings and characters by blanks.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut place = Place::Code;
    let mut at = 0;
    while at < bytes.len() {
        let (next, keep, length) = step(bytes, at, place);
        for &byte in &bytes[at..at + length] {
            out.push(if keep || byte == b'\n' { byte } else { b' ' });
        }
        place = next;
        at += length;
    }
    String::from_utf8(out).expect("whole characters are kept or blanked")
}

/// What follows at `at`: the next place, whether these bytes are code, and how many they are.
fn step(bytes: &[u8], at: usize, place: Place) -> (Place, bool, usize) {
    let rest = &bytes[at..];
    match place {
        Place::Code => step_code(bytes, at),
        Place::LineComment => {
            (if rest[0] == b'\n' { Place::Code } else { Place::LineComment }, false, 1)
        }
        Place::BlockComment(depth) if rest.starts_with(b"*/") => {
            let next = if depth == 1 { Place::Code } else { Place::BlockComment(depth - 1) };
            (next, false, 2)
        }
        Place::BlockComment(depth) if rest.starts_with(b"/*") => {
            (Place::BlockComment(depth + 1), false, 2)
        }
        Place::BlockComment(depth) => (Place::BlockComment(depth), false, 1),
        Place::Text if rest[0] == b'\\' && rest.len() > 1 => (Place::Text, false, 2),
        Place::Text if rest[0] == b'"' => (Place::Code, true, 1),
        Place::Text => (Place::Text, false, 1),
        Place::RawText(hashes) => {
            let ends = rest[0] == b'"'
                && rest.len() > hashes
                && rest[1..=hashes].iter().all(|&byte| byte == b'#');
            if ends { (Place::Code, true, 1 + hashes) } else { (Place::RawText(hashes), false, 1) }
        }
    }
}

fn step_code(bytes: &[u8], at: usize) -> (Place, bool, usize) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return (Place::LineComment, false, 2);
    }
    if rest.starts_with(b"/*") {
        return (Place::BlockComment(1), false, 2);
    }
    if rest[0] == b'"' {
        return (Place::Text, true, 1);
    }
    let after_name = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if !after_name && let Some(prefix) = raw_start(rest) {
        return (Place::RawText(prefix.1), true, prefix.0);
    }
    if rest[0] == b'\''
        && let Some(length) = character(rest)
    {
        return (Place::Code, false, length);
    }
    (Place::Code, true, 1)
}

/// `r"`, `r#"`, `br##"` …: length of the opening and number of hashes.
fn raw_start(rest: &[u8]) -> Option<(usize, usize)> {
    let r = usize::from(rest[0] == b'b');
    if rest.get(r) != Some(&b'r') {
        return None;
    }
    let hashes = rest[r + 1..].iter().take_while(|&&byte| byte == b'#').count();
    (rest.get(r + 1 + hashes) == Some(&b'"')).then_some((r + 2 + hashes, hashes))
}

/// Length of a character literal, or `None` for a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    const LONGEST: usize = 12; // '\u{10ffff}'
    let body = rest.get(1)?;
    if *body == b'\\' {
        let end = rest[3..].iter().take(LONGEST).position(|&byte| byte == b'\'')?;
        return Some(end + 4);
    }
    let width = match body {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

/// Replaces items under `#[cfg(test)]` by blanks.
fn blank_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = code.to_owned();
    let mut from = 0;
    while let Some(found) = out[from..].find(MARK) {
        let start = from + found;
        let end = item_end(&out, start + MARK.len());
        let blanks: String =
            out[start..end].bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }).collect();
        out.replace_range(start..end, &blanks);
        from = end;
    }
    out
}

/// Where the item that begins at `from` ends: after its `;` or its closing brace.
fn item_end(code: &str, from: usize) -> usize {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => others += 1,
            b')' | b']' => others = others.saturating_sub(1),
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 {
                    return at + 1;
                }
            }
            b';' if braces == 0 && others == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// A function: its name, first line and number of lines.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// Every function with a body that is no test.
pub(crate) fn functions(source: &Source) -> Vec<Function> {
    let mut found = Vec::new();
    for at in source.words("fn") {
        let name: String = source.after(at + 2).chars().take_while(|&c| is_name(c)).collect();
        if name.is_empty() || is_test(source.before(at)) {
            continue; // the type of a function pointer, or a test
        }
        let end = item_end(&source.code, at);
        if !source.code[..end].ends_with('}') {
            continue; // a declaration in a trait
        }
        let line = source.line_of(at);
        found.push(Function { name, line, lines: source.line_of(end - 1) - line + 1 });
    }
    found
}

/// Whether the attribute right before a function, if any, makes it a test.
fn is_test(before: &str) -> bool {
    let before = before.trim_end_matches("async").trim_end();
    let attribute = before.rsplit("#[").next().unwrap_or("");
    before.ends_with(']')
        && attribute.split(['(', ']']).next().is_some_and(|name| name.ends_with("test"))
}

/// Rust files below `folder`, in order of their paths. Files that are test modules have no code.
pub(crate) fn sources(folder: &str) -> Vec<Source> {
    let mut sources: Vec<Source> = files(folder, &ends_in("rs"))
        .into_iter()
        .map(|(path, text)| Source::new(&path, &text))
        .collect();
    blank_test_files(&mut sources);
    sources
}

/// Takes away the code of files that are modules under `#[cfg(test)] mod name;` of another.
pub(crate) fn blank_test_files(sources: &mut [Source]) {
    let modules: Vec<String> = sources.iter().flat_map(test_modules).collect();
    for source in sources {
        let stem = source.path.trim_end_matches(".rs").trim_end_matches("/mod");
        let is_test = modules.iter().any(|module| {
            stem == module || stem.strip_prefix(module).is_some_and(|rest| rest.starts_with('/'))
        });
        if is_test {
            source.code = source.code.chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
        }
    }
}

/// Paths, without `.rs`, of the modules that `source` declares for tests only.
fn test_modules(source: &Source) -> Vec<String> {
    let (folder, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let inside = match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ => source.path.trim_end_matches(".rs").to_owned(),
    };
    let code = blank(&source.text);
    let mut found = Vec::new();
    for (at, mark) in code.match_indices("#[cfg(test)]") {
        let start = at + mark.len();
        let item = &code[start..item_end(&code, start)];
        let Some((attributes, name)) = item.rsplit_once("mod ") else { continue };
        let Some(name) = name.strip_suffix(';') else { continue };
        let path_at = attributes.find("path").map(|offset| start + offset);
        found.push(match path_at.and_then(|at| source.text[at..].split('"').nth(1)) {
            Some(path) => {
                format!("{folder}/{}", path.trim_end_matches(".rs").trim_end_matches("/mod"))
            }
            None => format!("{inside}/{}", name.trim()),
        });
    }
    found
}

mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_no_code() {
        let text = concat!(
            "let a = \"tokio\"; // tokio\n",
            "/* tokio /* tokio */ tokio */ let b = '\"'; let c: &'static str = r#\"tokio \" tokio\"#;\n",
            "let d = '\\''; let e = b\"to\\\"kio\"; let f = 'ü'; call(b);",
        );
        let source = Source::new("x.rs", text);
        assert_eq!(source.words("tokio").count(), 0, "{}", source.code);
        for kept in ["let a", "let b", "'static", "let d", "let e", "let f", "call(b);"] {
            assert!(source.code.contains(kept), "{kept}: {}", source.code);
        }
    }

    #[test]
    fn items_of_tests_are_left_out_and_what_follows_is_not() {
        let text = concat!(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { x.unwrap() } }\n",
            "#[cfg(test)]\nuse std::x;\nfn c() { y.unwrap() }\n",
        );
        let source = Source::new("x.rs", text);
        assert!(!source.code.contains("x.unwrap") && !source.code.contains("use std"));
        assert!(source.code.contains("fn a") && source.code.contains("y.unwrap"));
    }

    #[test]
    fn files_of_test_modules_have_no_code() {
        let code = "fn a() { x.unwrap() }";
        let paths = [
            "a/tests.rs",
            "a/tests/b.rs",
            "a/c_tests.rs",
            "a/d/fake.rs",
            "a/e_tests/mod.rs",
            "a/testsuite.rs",
        ];
        let mut all: Vec<Source> = paths.iter().map(|path| Source::new(path, code)).collect();
        all.push(Source::new("a/mod.rs", "mod testsuite;\n#[cfg(test)]\nmod tests;\n"));
        let named = "#[cfg(test)]\n#[path = \"c_tests.rs\"]\nmod tests;\n";
        all.push(Source::new("a/c.rs", named));
        all.push(Source::new("a/d.rs", "#[cfg(test)]\npub(crate) mod fake;\nmod other;\n"));
        all.push(Source::new("a/e.rs", &named.replace("c_tests.rs", "e_tests/mod.rs")));
        blank_test_files(&mut all);
        let with_code: Vec<&str> = all[..paths.len()]
            .iter()
            .filter(|s| !s.code.trim().is_empty())
            .map(|s| &*s.path)
            .collect();
        assert_eq!(with_code, ["a/testsuite.rs"]);
    }

    #[test]
    fn words_are_whole_names() {
        let source = Source::new("x.rs", "LeaseInstant Instant instant::Instant Instants");
        assert_eq!(source.words("Instant").count(), 2);
    }

    #[test]
    fn functions_are_measured_with_their_signature() {
        let text = "trait T { fn d(&self); }\nfn one() -> fn(u8) -> u8 {\n  a;\n}\nfn two(\n) where\n{ if x { y } }\n#[tokio::test(start_paused = true)]\nasync fn t() {}\n#[test]\nfn t() {}\n#[inline]\nfn three() {}\n";
        let found = functions(&Source::new("x.rs", text));
        let measured: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(measured, [("one", 2, 3), ("two", 5, 3), ("three", 13, 1)]);
    }
}
