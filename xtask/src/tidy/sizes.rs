//! Files that can be read: not too long, not too wide, not too large.

use super::Finding;
use crate::tree::Tree;

/// Lines of a source file. What needs more is several things.
const MOST_LINES: usize = 600;
/// Characters of a source line. rustfmt breaks code at 100; this is for what it leaves alone: comments,
/// strings and tables in macros.
const MOST_WIDTH: usize = 140;
/// Bytes of any file.
const MOST_BYTES: u64 = 512 << 10;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let large = tree.files.iter().filter(|file| file.bytes > MOST_BYTES);
    let mut findings: Vec<_> = large
        .map(|file| Finding::file(file, format!("{} bytes, more than {MOST_BYTES}", file.bytes)))
        .collect();
    for (file, text) in tree.texts(&[".rs", ".go", ".ts", ".tsx"]) {
        let lines = text.lines().count();
        if lines > MOST_LINES {
            findings.push(Finding::file(file, format!("{lines} lines, more than {MOST_LINES}")));
        }
        let wide = text.lines().enumerate().filter(|(_, line)| line.chars().count() > MOST_WIDTH);
        let message = format!("longer than {MOST_WIDTH} characters");
        findings.extend(wide.map(|(index, _)| Finding::line(file, index, message.as_str())));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn each_bound_is_the_last_that_is_allowed() {
        assert_eq!(count("a.rs", &"x\n".repeat(MOST_LINES)), 0);
        assert_eq!(count("a.rs", &"x\n".repeat(MOST_LINES + 1)), 1);
        assert_eq!(count("a.rs", &"é".repeat(MOST_WIDTH)), 0);
        assert_eq!(count("a.rs", &"é".repeat(MOST_WIDTH + 1)), 1);
        assert_eq!(count("a.json", &"x".repeat(512 << 10)), 0);
        assert_eq!(count("a.json", &"x".repeat((512 << 10) + 1)), 1);
    }
}
