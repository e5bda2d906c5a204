//! The repository holds sources, not artefacts: no file over 256 KiB, lockfiles excepted.

use crate::tree::{Finding, Tree};

const FILE_KIB_MAX: u64 = 256;
const LOCKFILES: &[&str] = &["Cargo.lock", "package-lock.json", "go.sum"];

/// Files over the limit.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .filter(|file| file.bytes > FILE_KIB_MAX << 10 && !LOCKFILES.contains(&file.name()))
        .map(|file| {
            let kib = file.bytes >> 10;
            let text = format!(
                "{kib} KiB, over {FILE_KIB_MAX} KiB; generate it when it is needed, or cut it down"
            );
            Finding::error(&file.path, 1, text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_a_finding_unless_it_is_a_lockfile() {
        let large = " ".repeat((256 << 10) + 1);
        let tree = Tree::of(&[
            ("docs/data.csv", &large),
            ("Cargo.lock", &large),
            ("small.txt", &large[1..]),
        ]);
        let findings: Vec<String> = check(&tree).iter().map(Finding::to_string).collect();
        assert_eq!(
            findings,
            [
                "docs/data.csv:1: 256 KiB, over 256 KiB; generate it when it is needed, or cut it down"
            ]
        );
    }
}
