//! A Rust file as the rules see it: its text, its code without comments and literals, its
//! functions.

use std::path::{Path, PathBuf};

/// A source file.
pub struct Source {
    /// From the root of the repository.
    pub path: String,
    /// As it is.
    pub text: String,
    /// With blanks for comments, and for what is within string and character literals.
    pub code: String,
}

/// A function with a body.
pub struct Function {
    /// Its name.
    pub name: String,
    /// From `fn` to its last brace.
    pub lines: usize,
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of the repository.
pub fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in ["src", "protocol", "storage", "cluster", "tests", "compat-tests"] {
        collect(&repository().join(folder), &mut paths);
    }
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let path = path.strip_prefix(repository()).expect("within the repository");
        Source { path: path.to_string_lossy().into_owned(), code: blank(&text), text }
    };
    paths.into_iter().map(read).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

impl Source {
    /// Of the broker itself, tests and benches aside.
    pub fn is_ours(&self) -> bool {
        self.path.starts_with("src/") || self.path.contains("/src/")
    }

    /// Whether its opening comment has a line `//! Pure:`, or `//! Pure (…):` with a reservation.
    pub fn is_marked_pure(&self) -> bool {
        self.text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .any(|line| line.starts_with("//! Pure:") || line.starts_with("//! Pure ("))
    }

    /// The API whose handler this file is.
    pub fn handler_name(&self) -> Option<&str> {
        let name = self.path.strip_prefix("src/handlers/")?.strip_suffix(".rs")?;
        (name != "mod" && !name.contains('/')).then_some(name)
    }

    /// Whether the word stands somewhere in the code, tests at its end aside.
    pub fn has_word(&self, word: &str) -> bool {
        let code = self.code.split("#[cfg(test)]").next().unwrap_or_default();
        words_of(code).any(|found| found == word)
    }

    /// Whether a path begins with that crate: `name::` or `use name`.
    pub fn names_crate(&self, name: &str) -> bool {
        let starts_path = |(at, _): (usize, &str)| {
            let before = self.code[..at].trim_end();
            let after = &self.code[at + name.len()..];
            let own_word = !after.starts_with(is_word) && !self.code[..at].ends_with(is_word);
            let within_path = before.ends_with("::") || before.ends_with('.');
            let is_path = after.starts_with("::")
                || (before.ends_with("use") && after.trim_start().starts_with([';', ' ']));
            own_word && !within_path && is_path
        };
        self.code.match_indices(name).any(starts_path)
    }

    /// Every function that has a body.
    pub fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for (at, _) in self.code.match_indices("fn ") {
            if self.code[..at].ends_with(is_word) {
                continue;
            }
            let rest = &self.code[at + 3..];
            let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
            if let Some(lines) = body_lines(rest).filter(|_| !name.is_empty()) {
                functions.push(Function { name, lines });
            }
        }
        functions
    }
}

/// Lines up to the brace that closes the first one opened, unless a `;` ends the item before.
fn body_lines(code: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut brackets = 0usize;
    for (at, letter) in code.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(code[..at].lines().count());
                }
            }
            '[' | '(' => brackets += 1,
            ']' | ')' => brackets = brackets.saturating_sub(1),
            ';' if depth == 0 && brackets == 0 => return None,
            _ => {}
        }
    }
    None
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn words_of(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter| !is_word(letter)).filter(|word| !word.is_empty())
}

/// Blanks for comments and literals; lines stay where they are.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let skipped = literal_or_comment(rest, code.chars().next_back());
        if skipped == 0 {
            code.push(letter);
            rest = &rest[letter.len_utf8()..];
        } else {
            code.extend(rest[..skipped].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[skipped..];
        }
    }
    code
}

/// Bytes of the comment or literal that `rest` begins with, or 0.
fn literal_or_comment(rest: &str, before: Option<char>) -> usize {
    let within_word = before.is_some_and(is_word);
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    if let Some(raw) = rest.strip_prefix('r').filter(|_| !within_word || before == Some('b')) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = hashes + 2;
            return rest[body..].find(&end).map_or(rest.len(), |at| body + at + end.len());
        }
    }
    if rest.starts_with('"') {
        return quoted(rest, '"');
    }
    if let Some(behind) = rest.strip_prefix('\'') {
        // A lifetime has no quote behind its first letter.
        let mut letters = behind.chars();
        let first = letters.next();
        if first == Some('\\') || letters.next() == Some('\'') {
            return quoted(rest, '\'');
        }
    }
    0
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}
