//! Names and paths in texts for people. A name may hold any byte but a slash and NUL: line breaks, sequences that steer a terminal, bytes
//! that are no text.
//!
//! Invariant: a shown name stays in its line and leaves the terminal alone, and a shell reads it back as the same bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A name as it is if people can read and type it, otherwise as `$'two\nlines'`, which shells understand.
pub fn readable(name: &(impl AsRef<OsStr> + ?Sized)) -> String {
    let name = name.as_ref();
    match name.to_str() {
        Some(text) if text.trim() == text && !text.contains(is_hidden) => text.to_owned(),
        _ => escaped(name),
    }
}

/// A path as a word of a command that people may copy.
pub fn shell_word(path: &(impl AsRef<OsStr> + ?Sized)) -> String {
    let text = readable(path);
    if text.starts_with("$'") || text.contains(['"', '$', '`', '\\', '!']) {
        return escaped(path.as_ref());
    }
    let is_bare = |letter: char| letter.is_alphanumeric() || "/._-+@%:,=".contains(letter);
    if text.is_empty() || !text.chars().all(is_bare) { format!("\"{text}\"") } else { text }
}

/// True for a letter that nobody sees, but that moves or hides others.
pub fn is_hidden(letter: char) -> bool {
    // Line separators, and what turns the direction of writing.
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(name: &OsStr) -> String {
    let mut text = String::from("$'");
    // Octal, since shells differ in how many digits a hexadecimal number has.
    let octal =
        |text: &mut String, bytes: &[u8]| text.extend(bytes.iter().map(|byte| format!("\\{byte:03o}")));
    for chunk in name.as_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\'' | '\\' => text.extend(['\\', letter]),
                _ if is_hidden(letter) => octal(&mut text, letter.encode_utf8(&mut [0; 4]).as_bytes()),
                _ => text.push(letter),
            }
        }
        octal(&mut text, chunk.invalid());
    }
    text + "'"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const ODD: [(&[u8], &str); 6] = [
        (b"two\nlines", "$'two\\nlines'"),
        (b"it's\t\\odd", "$'it\\'s\\t\\\\odd'"),
        (b"caf\xe9 \xc3\xa9", "$'caf\\351 é'"),
        (b"\x1b[2J1", "$'\\033[2J1'"),
        ("exe.\u{202e}txt".as_bytes(), "$'exe.\\342\\200\\256txt'"),
        (b" blank ", "$' blank '"),
    ];

    #[test]
    fn a_name_is_as_it_is_unless_it_breaks_the_line_or_steers_the_terminal() {
        for name in ["größe", "e\u{301}", "it's \"q\"", "a  b", "back\\nslash", "$HOME", "-rf"] {
            assert_eq!(readable(name), name);
        }
        for (name, text) in ODD {
            assert_eq!(readable(OsStr::from_bytes(name)), text);
        }
    }

    #[test]
    fn a_word_of_a_command_is_quoted_where_a_shell_needs_it() {
        for (path, text) in
            [("/mnt/a-b@c", "/mnt/a-b@c"), ("/mnt/my letters", "\"/mnt/my letters\""), ("", "\"\"")]
        {
            assert_eq!(shell_word(path), text);
        }
        assert_eq!((shell_word("it's").as_str(), shell_word("a$b").as_str()), ("\"it's\"", "$'a$b'"));
    }

    #[test]
    fn a_shell_reads_back_what_is_shown() {
        let plain = ["my letters", "it's", "a\"b'c", "a!b", "$HOME", "`id`", "back\\nslash", "~", "*"];
        let names = plain.iter().map(|name| name.as_bytes()).chain(ODD.map(|(name, _)| name));
        for name in names {
            let script = format!("printf %s {}", shell_word(OsStr::from_bytes(name)));
            let output = Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(output.stdout, name, "{script}");
        }
    }
}
