//! The generated documents are what the code says; `UPDATE_EXPECT=1` rewrites those that differ.

use std::path::Path;

#[test]
fn generated_documents_are_current() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut stale = Vec::new();
    for (path, text) in highwater::docgen::documents() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
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
