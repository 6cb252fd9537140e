//! The generated documents are what the code says; `UPDATE_EXPECT=1` rewrites those that differ.

use std::path::Path;

#[test]
fn generated_documents_are_current() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut stale = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recorded = |path| std::fs::read_to_string(root.join(path)).expect("a recorded run");
    let matrix = recorded("compat-tests/results.json");
    let suites = recorded("compat-tests/suites/results.json");
    for (path, text) in highwater::docgen::documents(&matrix, &suites).expect("as recorded") {
        let file = root.join(path);
        if std::fs::read_to_string(&file).is_ok_and(|current| current == text) {
            continue;
        }
        if update {
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            std::fs::write(&file, text).expect("writes");
        } else {
            stale.push(path);
        }
    }
    assert!(stale.is_empty(), "{stale:?} differ: UPDATE_EXPECT=1 cargo test --test docs");
}
