//! RE2's syntax, as Kafka's RE2/J takes it, in the words of Rust's `regex`.
//!
//! Both are of one family, and what a pattern means is left to `regex`. Here is read what only one of them has (`\Q…\E`, octal
//! numbers, set operations in classes), what they spell differently (`{` that repeats nothing, `\<`), and what RE2 refuses though
//! `regex` does not (`a**`, counts beyond 1000). Perl's classes are those of ASCII. Refusals have RE2/J's words.

use std::iter::Peekable;
use std::str::Chars;

const MAX_REPEAT: u32 = 1000;
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];
/// Of names of classes and of counts, so that looking ahead for one costs little.
const LONGEST: usize = 32;
const FLAGS: [char; 4] = ['i', 'm', 's', 'U'];

pub type Outcome<T> = Result<T, String>;

/// What a repetition would repeat.
#[derive(PartialEq)]
enum Last {
    Nothing,
    Atom,
    Repetition,
}

struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    last: Last,
    depth: usize,
}

/// The same expression for `regex`, to be compiled with its Unicode mode on.
pub fn translated(pattern: &str) -> Outcome<String> {
    let mut translator = Translator {
        rest: pattern.chars().peekable(),
        out: String::with_capacity(pattern.len() * 2),
        last: Last::Nothing,
        depth: 0,
    };
    while let Some(char) = translator.rest.next() {
        translator.piece(char)?;
    }
    if translator.depth > 0 {
        return Err("missing closing )".to_owned());
    }
    Ok(translator.out)
}

impl Translator<'_> {
    fn piece(&mut self, char: char) -> Outcome<()> {
        match char {
            '\\' => self.escape(),
            '[' => self.class(),
            '(' => self.open(),
            ')' => self.close(),
            '*' | '+' | '?' => self.repeat(&char.to_string()),
            '{' => match self.counts()? {
                Some(counts) => self.repeat(&counts),
                None => {
                    self.literal('{')?;
                    self.last = Last::Repetition; // RE2/J lets nothing repeat such a brace
                    Ok(())
                }
            },
            '|' => {
                self.out.push('|');
                self.last = Last::Nothing;
                Ok(())
            }
            '.' | '^' | '$' => self.atom(&char.to_string()),
            _ => self.literal(char),
        }
    }

    fn atom(&mut self, text: &str) -> Outcome<()> {
        self.out.push_str(text);
        self.last = Last::Atom;
        Ok(())
    }

    fn literal(&mut self, char: char) -> Outcome<()> {
        self.atom(&regex::escape(char.encode_utf8(&mut [0; 4])))
    }

    fn take(&mut self, wanted: char) -> bool {
        self.rest.next_if_eq(&wanted).is_some()
    }

    /// What stands before the end of a name, which is taken too.
    fn until(&mut self, end: char) -> Option<String> {
        let text: String = self.rest.clone().take(LONGEST).take_while(|char| *char != end).collect();
        (self.rest.nth(text.chars().count()) == Some(end)).then_some(text)
    }

    fn next(&mut self, error: &str) -> Outcome<char> {
        self.rest.next().ok_or_else(|| error.to_owned())
    }

    // -- repetitions ---------------------------------------------------------------------------------------------------
    fn repeat(&mut self, operator: &str) -> Outcome<()> {
        match self.last {
            Last::Nothing => return Err(format!("missing argument to repetition operator: `{operator}`")),
            Last::Repetition => return Err(format!("invalid nested repetition operator: `{operator}`")),
            Last::Atom => self.out.push_str(operator),
        }
        if self.take('?') {
            self.out.push('?');
        }
        self.last = Last::Repetition;
        Ok(())
    }

    /// `{2}`, `{2,}` or `{2,3}`; None where a brace is just that.
    fn counts(&mut self) -> Outcome<Option<String>> {
        let text: String = self.rest.clone().take(LONGEST).take_while(|char| *char != '}').collect();
        let is_number =
            |text: &str| text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
        let (low, high) = text.split_once(',').unwrap_or((&text, &text));
        let is_closed = self.rest.clone().nth(text.chars().count()) == Some('}');
        if !is_closed || low.is_empty() || !is_number(low) || !is_number(high) {
            return Ok(None);
        }
        let count = |text: &str| text.parse::<u32>().ok().filter(|count| *count <= MAX_REPEAT);
        let is_valid = count(low).is_some_and(|low| high.is_empty() || count(high).is_some_and(|high| low <= high));
        if !is_valid {
            return Err(format!("invalid repeat count: `{{{text}}}`"));
        }
        self.rest.nth(text.len()); // digits and a comma are a byte each
        Ok(Some(format!("{{{text}}}")))
    }

    // -- groups --------------------------------------------------------------------------------------------------------
    fn open(&mut self) -> Outcome<()> {
        if !self.take('?') {
            self.out.push('(');
            return self.opened();
        }
        let has_p = self.take('P');
        if self.take('<') {
            let name = self.until('>').unwrap_or_default();
            if name.is_empty() || !name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_') {
                return Err(format!("invalid named capture: `{name}`"));
            }
            self.out.push_str(&format!("(?P<_{name}>")); // RE2's names may begin with a digit
            return self.opened();
        }
        if has_p {
            return Err("invalid or unsupported Perl syntax: `(?P`".to_owned());
        }
        self.flags()
    }

    fn opened(&mut self) -> Outcome<()> {
        self.depth += 1;
        self.last = Last::Nothing;
        Ok(())
    }

    fn close(&mut self) -> Outcome<()> {
        self.depth = self.depth.checked_sub(1).ok_or("unexpected )")?;
        self.atom(")")
    }

    /// `(?i)` and `(?i-s:`: RE2 lets a flag come again, the last one counts.
    fn flags(&mut self) -> Outcome<()> {
        let (mut on, mut off) = (String::new(), String::new());
        let (mut is_on, mut is_complete) = (true, true);
        loop {
            let char = self.next("invalid or unsupported Perl syntax: `(?`")?;
            match char {
                flag if FLAGS.contains(&flag) => {
                    let (into, other) = if is_on { (&mut on, &mut off) } else { (&mut off, &mut on) };
                    other.retain(|known| known != flag);
                    if !into.contains(flag) {
                        into.push(flag);
                    }
                    is_complete = true;
                }
                '-' if is_on => (is_on, is_complete) = (false, false),
                ':' | ')' if is_complete => {
                    let dash = if off.is_empty() { "" } else { "-" };
                    let flags = format!("(?{on}{dash}{off}{char}");
                    if flags != "(?)" {
                        self.out.push_str(&flags);
                    }
                    return if char == ':' { self.opened() } else { Ok(()) };
                }
                _ => return Err(format!("invalid or unsupported Perl syntax: `(?{char}`")),
            }
        }
    }

    // -- escapes -------------------------------------------------------------------------------------------------------
    fn escape(&mut self) -> Outcome<()> {
        match self.rest.peek() {
            Some('Q') => {
                self.rest.next();
                self.quoted()
            }
            Some(char @ ('A' | 'z')) => {
                let text = format!("\\{char}");
                self.rest.next();
                self.atom(&text)
            }
            Some(char @ ('b' | 'B')) => {
                let text = format!("(?-u:\\{char})");
                self.rest.next();
                self.atom(&text)
            }
            _ => match self.class_escape()? {
                Some(class) => self.atom(&class),
                None => {
                    let char = self.char_escape()?;
                    self.literal(char)
                }
            },
        }
    }

    fn quoted(&mut self) -> Outcome<()> {
        while let Some(char) = self.rest.next() {
            if char == '\\' && self.take('E') {
                break;
            }
            self.literal(char)?;
        }
        Ok(())
    }

    /// `\d` and `\pL`, as a class that may stand in another one.
    fn class_escape(&mut self) -> Outcome<Option<String>> {
        let class = match self.rest.peek() {
            Some('d') => "[0-9]",
            Some('D') => "[^0-9]",
            Some('w') => "[0-9A-Za-z_]",
            Some('W') => "[^0-9A-Za-z_]",
            Some('s') => r"[\t\n\f\r ]",
            Some('S') => r"[^\t\n\f\r ]",
            Some('p') => return self.unicode_class(false).map(Some),
            Some('P') => return self.unicode_class(true).map(Some),
            _ => return Ok(None),
        };
        self.rest.next();
        Ok(Some(class.to_owned()))
    }

    fn unicode_class(&mut self, mut is_negated: bool) -> Outcome<String> {
        let invalid = "invalid character class range: `\\p`";
        self.rest.next();
        let mut name = self.next(invalid)?.to_string();
        if name == "{" {
            name = self.until('}').ok_or(invalid)?;
            if let Some(positive) = name.strip_prefix('^') {
                (is_negated, name) = (!is_negated, positive.to_owned());
            }
        }
        // `regex` knows many more names of the same, and properties
        let is_known = name.starts_with(|char: char| char.is_ascii_uppercase())
            && name.chars().skip(1).all(|char| char.is_ascii_alphabetic() || char == '_');
        let kind = match name.len() {
            _ if !is_known => return Err(format!("invalid character class range: `\\p{{{name}}}`")),
            1 | 2 => "gc=",
            _ if name == "Any" => "",
            _ => "sc=",
        };
        Ok(format!("\\{}{{{kind}{name}}}", if is_negated { 'P' } else { 'p' }))
    }

    fn char_escape(&mut self) -> Outcome<char> {
        let char = self.next("trailing backslash at end of expression")?;
        let invalid = || format!("invalid escape sequence: `\\{char}`");
        match char {
            '1'..='7' if !matches!(self.rest.peek(), Some('0'..='7')) => Err(invalid()),
            '0'..='7' => {
                let mut code = char.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = self.rest.peek().and_then(|char| char.to_digit(8)) else { break };
                    self.rest.next();
                    code = code * 8 + digit;
                }
                char::from_u32(code).ok_or_else(invalid)
            }
            'x' => self.hexadecimal().ok_or_else(invalid),
            'a' => Ok('\x07'),
            'f' => Ok('\x0c'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\x0b'),
            _ if char.is_ascii_alphanumeric() => Err(invalid()),
            _ => Ok(char),
        }
    }

    fn hexadecimal(&mut self) -> Option<char> {
        let first = self.rest.next()?;
        let digits: String =
            if first == '{' { self.until('}')? } else { [first, self.rest.next()?].into_iter().collect() };
        let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(&digits, 16).ok().filter(|_| is_number).and_then(char::from_u32)
    }

    // -- classes -------------------------------------------------------------------------------------------------------
    fn class(&mut self) -> Outcome<()> {
        self.out.push('[');
        if self.take('^') {
            self.out.push('^');
        }
        let mut is_first = true;
        while is_first || !self.take(']') {
            is_first = false;
            self.class_item()?;
        }
        self.atom("]")
    }

    fn class_item(&mut self) -> Outcome<()> {
        if let Some(name) = self.posix_name() {
            if !POSIX.contains(&name.trim_start_matches('^')) {
                return Err(format!("invalid character class range: `[:{name}:]`"));
            }
            self.rest.nth(name.len() + 3); // [: and :]
            self.out.push_str(&format!("[:{name}:]"));
            return Ok(());
        }
        let mut next = self.rest.clone();
        if next.next() == Some('\\') && matches!(next.peek(), Some('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'p' | 'P')) {
            self.rest.next();
            let class = self.class_escape()?.unwrap_or_default();
            self.out.push_str(&class);
            return Ok(());
        }
        let low = self.class_char()?;
        let mut next = self.rest.clone();
        let is_range = next.next() == Some('-') && !matches!(next.next(), None | Some(']'));
        let high = if is_range { self.rest.next().map_or(Ok(low), |_| self.class_char())? } else { low };
        if high < low {
            return Err(format!("invalid character class range: `{low}-{high}`"));
        }
        self.out.push_str(&format!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(low), u32::from(high)));
        Ok(())
    }

    /// `alpha` where `[:alpha:]` comes next.
    fn posix_name(&self) -> Option<String> {
        let mut next = self.rest.clone();
        if next.next() != Some('[') || next.next() != Some(':') {
            return None;
        }
        let text: String = next.take(LONGEST).collect();
        text.split_once(":]").map(|(name, _)| name.to_owned())
    }

    fn class_char(&mut self) -> Outcome<char> {
        match self.next("missing closing ]")? {
            '\\' => self.char_escape(),
            char => Ok(char),
        }
    }
}
