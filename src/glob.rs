//! Patterns for names.

/// Whether a text matches a pattern of `*`, `?` and plain characters.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on after a star that swallowed too little.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match retry {
                Some((after, from)) => {
                    retry = Some((after, from + 1));
                    (p, t) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        for (pattern, text, matches) in [
            ("nightly-*", "nightly-202611290200", true),
            ("nightly-*", "anightly-1", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*-m*1", "x-m-m11", true),
            ("a*b*c", "a-bb-c", true),
            ("a*b*c", "a-bb-d", false),
            ("r0", "r0", true),
            ("r0", "r01", false),
        ] {
            assert_eq!(glob(pattern, text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, fit) in [
            ("*", "", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "abc", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(glob(pattern, text), fit, "{pattern} {text}");
        }
    }
}
