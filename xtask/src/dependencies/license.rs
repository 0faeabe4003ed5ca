//! Licence expressions (SPDX, annex D), as manifests have them: `MIT OR Apache-2.0`, and the older `MIT/Apache-2.0`.

/// Whether an expression can be met with licences of the list alone. One that is malformed cannot.
pub(super) fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    either(&mut words, allowed) == Some(true) && words.is_empty()
}

/// Alternatives. `words` are in reverse order, so that the next one is at the end; `None` where they are malformed.
fn either(words: &mut Vec<&str>, allowed: &[String]) -> Option<bool> {
    let mut is_met = all(words, allowed)?;
    while words.pop_if(|word| *word == "OR").is_some() {
        is_met |= all(words, allowed)?;
    }
    Some(is_met)
}

fn all(words: &mut Vec<&str>, allowed: &[String]) -> Option<bool> {
    let mut is_met = one(words, allowed)?;
    while words.pop_if(|word| *word == "AND").is_some() {
        is_met &= one(words, allowed)?;
    }
    Some(is_met)
}

fn one(words: &mut Vec<&str>, allowed: &[String]) -> Option<bool> {
    let word = words.pop()?;
    if word == "(" {
        let is_met = either(words, allowed)?;
        return words.pop_if(|word| *word == ")").map(|_| is_met);
    }
    if matches!(word, ")" | "AND" | "OR" | "WITH") {
        return None;
    }
    let name = match words.pop_if(|word| *word == "WITH") {
        Some(_) => format!("{word} WITH {}", words.pop()?),
        None => word.to_owned(),
    };
    Some(allowed.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_or_not() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for expression in [
            "MIT",
            "GPL-3.0 OR MIT",
            "GPL-3.0/MIT",
            "MIT AND ISC",
            "(GPL-3.0 OR MIT) AND ISC",
            "GPL-3.0 OR MIT AND ISC",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_allowed(expression, &allowed), "{expression}");
        }
        for expression in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(GPL-3.0 OR MIT) AND GPL-2.0",
            "MIT AND GPL-3.0 OR GPL-2.0",
            "Apache-2.0",
            "MIT WITH LLVM-exception",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT MIT",
            "mit",
        ] {
            assert!(!is_allowed(expression, &allowed), "{expression}");
        }
    }
}
