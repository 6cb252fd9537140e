//! Script tests: a text file of commands, each with the output that is expected of it.
//!
//! ```text
//! # A comment, which stays as it is.
//! > append 7 epoch=0 seq=0 count=3
//! accepted at 0..2
//! ```
//! A line that starts with `> ` is a command: a name, positional arguments, and options
//! `key=value`.
//! The lines behind it, up to an empty line, a comment or the next command, are its output.
//! `UPDATE_EXPECT=1` writes what came out into the file instead of comparing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One command of a script.
#[derive(Debug, Clone)]
pub struct Command {
    /// Its first word.
    pub name: String,
    args: Vec<String>,
    options: BTreeMap<String, String>,
    place: String,
}

impl Command {
    /// Splits a command line; `place` is named when something is wrong with it.
    #[must_use]
    pub fn parse(line: &str, place: &str) -> Command {
        let mut words = line.split_whitespace().map(str::to_owned);
        let name = words.next().unwrap_or_else(|| panic!("{place}: a command without a name"));
        let (mut args, mut options) = (Vec::new(), BTreeMap::new());
        for word in words {
            match word.split_once('=') {
                Some((key, value)) => {
                    options.insert(key.to_owned(), value.to_owned());
                }
                None => args.push(word),
            }
        }
        Command { name, args, options, place: place.to_owned() }
    }

    /// The positional argument number `index`.
    ///
    /// # Panics
    /// If it is missing or is no `T`: the script is wrong.
    #[must_use]
    pub fn arg<T: FromStr>(&self, index: usize) -> T {
        match self.args.get(index) {
            Some(word) => self.parsed(&format!("argument {index}"), word),
            None => panic!("{}: `{}` lacks argument {index}", self.place, self.name),
        }
    }

    /// All positional arguments.
    #[must_use]
    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// The option `key`, if it is given.
    ///
    /// # Panics
    /// If it is no `T`.
    #[must_use]
    pub fn option<T: FromStr>(&self, key: &str) -> Option<T> {
        self.options.get(key).map(|word| self.parsed(key, word))
    }

    /// The option `key`.
    ///
    /// # Panics
    /// If it is missing or is no `T`.
    #[must_use]
    pub fn required<T: FromStr>(&self, key: &str) -> T {
        self.option(key).unwrap_or_else(|| panic!("{}: `{}` lacks {key}=", self.place, self.name))
    }

    /// Whether the bare word `flag` is among the arguments.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.args.iter().any(|word| word == flag)
    }

    /// Ends the test: the machine does not know the command.
    ///
    /// # Panics
    /// Always.
    pub fn unknown(&self) -> ! {
        panic!("{}: unknown command `{}`", self.place, self.name)
    }

    fn parsed<T: FromStr>(&self, what: &str, word: &str) -> T {
        word.parse().unwrap_or_else(|_| panic!("{}: {what} cannot be `{word}`", self.place))
    }
}

/// Runs every `*.txt` of a directory, each on a machine of its own that `new_machine` makes.
///
/// # Panics
/// If an output differs from the one in the file, or the directory holds no script.
pub fn run_scripts<M>(directory: impl AsRef<Path>, mut new_machine: impl FnMut() -> M)
where
    M: FnMut(&Command) -> String,
{
    let directory = directory.as_ref();
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no scripts in {}", directory.display());
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut differing = Vec::new();
    for path in paths {
        let expected = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let actual = replay(&expected, &path.display().to_string(), new_machine());
        if actual == expected {
            continue;
        }
        if update {
            std::fs::write(&path, actual)
                .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        } else {
            differing.push(format!("{}:\n{}", path.display(), difference(&expected, &actual)));
        }
    }
    let hint = "UPDATE_EXPECT=1 accepts what came out";
    assert!(differing.is_empty(), "{}\n{hint}", differing.join("\n"));
}

/// The script with each command's output replaced by what the machine says now.
fn replay(script: &str, path: &str, mut machine: impl FnMut(&Command) -> String) -> String {
    let mut out = String::new();
    let mut inside_output = false;
    for (index, line) in script.lines().enumerate() {
        if let Some(text) = line.strip_prefix("> ") {
            let output = machine(&Command::parse(text, &format!("{path}:{}", index + 1)));
            let _ = writeln!(out, "{line}");
            for output_line in output.lines().filter(|line| !line.trim().is_empty()) {
                let _ = writeln!(out, "{}", output_line.trim_end());
            }
            inside_output = true;
        } else if line.trim().is_empty() || line.starts_with('#') {
            let _ = writeln!(out, "{line}");
            inside_output = false;
        } else if !inside_output {
            panic!("{path}:{}: output that no command makes: {line}", index + 1);
        }
    }
    out
}

/// The first lines that differ, with the line before them.
fn difference(expected: &str, actual: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), actual.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let mut out = String::new();
    let context = same.saturating_sub(3);
    for line in &old[context..same] {
        let _ = writeln!(out, "    {line}");
    }
    for line in old.iter().skip(same).take(6) {
        let _ = writeln!(out, "  - {line}");
    }
    for line in new.iter().skip(same).take(6) {
        let _ = writeln!(out, "  + {line}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Command, difference, replay};

    fn adder() -> impl FnMut(&Command) -> String {
        let mut sum = 0;
        move |command| {
            sum += command.arg::<i32>(0);
            format!("sum={sum}\n\nnegative={}", command.has("negative"))
        }
    }

    #[test]
    fn a_script_that_says_what_comes_out_stays_as_it_is() {
        let script = "# adds\n\n> add 2\nsum=2\nnegative=false\n> add 3\nsum=5\nnegative=false\n";
        assert_eq!(replay(script, "test", adder()), script);
    }

    #[test]
    fn wrong_and_missing_output_is_replaced() {
        let actual = replay("> add 2\nsum=9\n# end\n> add 1", "test", adder());
        let expected = "> add 2\nsum=2\nnegative=false\n# end\n> add 1\nsum=3\nnegative=false\n";
        assert_eq!(actual, expected);
        assert_eq!(difference("a\nb\n", "a\nc\n"), "    a\n  - b\n  + c\n");
    }

    #[test]
    fn options_and_flags_are_found_by_name() {
        let command = Command::parse("join g1 static at=7", "test");
        assert_eq!((command.name.as_str(), command.arg::<String>(0).as_str()), ("join", "g1"));
        assert_eq!(command.option::<u64>("at"), Some(7));
        assert_eq!(command.option::<u64>("until"), None);
        assert!(command.has("static"));
    }

    #[test]
    #[should_panic(expected = "test:3: `join` lacks at=")]
    fn a_missing_option_is_named_with_its_place() {
        let _ = Command::parse("join g1", "test:3").required::<u64>("at");
    }
}
