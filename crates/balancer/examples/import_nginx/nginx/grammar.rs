//! The grammar of nginx's configuration files: words, quotes, comments, blocks.
//!
//! Source: nginx 1.31, `ngx_conf_file.c`, `ngx_conf_read_token`; and, since many pools stand in
//! files of OpenResty, its blocks of Lua, which are skipped.

use super::{Located, Place};

/// One directive with its block, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    /// The first is its name; there is at least one.
    pub(crate) words: Vec<Word>,
    pub(crate) block: Option<Vec<Self>>,
}

/// One word, without its quotes and escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) at: Place,
}

impl Directive {
    pub(crate) fn name(&self) -> &str {
        self.words.first().map_or("", |word| word.text.as_str())
    }

    pub(crate) fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }

    pub(crate) fn at(&self) -> Place {
        self.words
            .first()
            .map_or_else(Place::default, |word| word.at)
    }
}

/// All directives of a text; their places are of the file of this number.
///
/// # Errors
///
/// At the first place that is not in the grammar.
pub(crate) fn parse(text: &str, file: usize) -> Result<Vec<Directive>, Located> {
    let mut reader = Reader::new(text, file);
    // The blocks that are open, the innermost last, each with the words before its brace.
    let mut open: Vec<(Vec<Word>, Vec<Directive>)> = Vec::new();
    let mut directives = Vec::new();
    let mut words = Vec::new();
    while let Some(token) = reader.next()? {
        match token {
            Token::Word(word) => words.push(word),
            Token::End(at) => {
                let words = filled(std::mem::take(&mut words), at, ";")?;
                directives.push(Directive { words, block: None });
            }
            Token::Open(at) => {
                let words = filled(std::mem::take(&mut words), at, "{")?;
                if words.first().is_some_and(|name| name.text.ends_with(LUA)) {
                    reader.skip_lua(at)?;
                    let block = Some(Vec::new());
                    directives.push(Directive { words, block });
                } else if open.len() == MAX_DEPTH {
                    let message = format!("more than {MAX_DEPTH} blocks in one another");
                    return Err(Located::new(at, message));
                } else {
                    open.push((words, std::mem::take(&mut directives)));
                }
            }
            Token::Close(at) => {
                if let Some(word) = words.first() {
                    let message = format!("`{}` is not ended by `;`", word.text);
                    return Err(Located::new(word.at, message));
                }
                let Some((words, before)) = open.pop() else {
                    return Err(Located::new(at, "unexpected `}`"));
                };
                let block = Some(std::mem::replace(&mut directives, before));
                directives.push(Directive { words, block });
            }
        }
    }
    if let Some(word) = words.first() {
        let message = format!("`{}` is ended neither by `;` nor by a block", word.text);
        return Err(Located::new(word.at, message));
    }
    match open.last() {
        None => Ok(directives),
        Some((words, _)) => {
            let name = words.first().map_or("", |word| word.text.as_str());
            let at = words.first().map_or_else(Place::default, |word| word.at);
            Err(Located::new(
                at,
                format!("the block `{name}` is not closed"),
            ))
        }
    }
}

fn filled(words: Vec<Word>, at: Place, end: &str) -> Result<Vec<Word>, Located> {
    if words.is_empty() {
        return Err(Located::new(at, format!("unexpected `{end}`")));
    }
    Ok(words)
}

enum Token {
    Word(Word),
    /// `;`
    End(Place),
    /// `{`
    Open(Place),
    /// `}`
    Close(Place),
}

struct Reader<'a> {
    rest: std::str::Chars<'a>,
    at: Place,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, file: usize) -> Self {
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text).chars();
        let at = Place {
            file,
            line: 1,
            column: 1,
        };
        Self { rest, at }
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += c.len_utf8();
        }
        Some(c)
    }

    fn next(&mut self) -> Result<Option<Token>, Located> {
        loop {
            let at = self.at;
            let Some(c) = self.peek() else {
                return Ok(None);
            };
            let token = match c {
                c if is_space(c) => {
                    self.bump();
                    continue;
                }
                '#' => {
                    while self.bump().is_some_and(|c| c != '\n') {}
                    continue;
                }
                ';' => Token::End(at),
                '{' => Token::Open(at),
                '}' => Token::Close(at),
                '"' | '\'' => return self.quoted(c).map(Some),
                _ => return Ok(Some(self.word())),
            };
            self.bump();
            return Ok(Some(token));
        }
    }

    /// A word in quotes. After them comes a space, the end of a directive, or the end of a group.
    fn quoted(&mut self, quote: char) -> Result<Token, Located> {
        let at = self.at;
        self.bump();
        let mut text = String::new();
        loop {
            match self.bump() {
                None => return Err(Located::new(at, "the quotes are not closed")),
                Some(c) if c == quote => break,
                Some('\\') => self.escaped(&mut text),
                Some(c) => text.push(c),
            }
        }
        match self.peek() {
            Some(c) if !is_space(c) && !matches!(c, ';' | '{' | ')') => {
                let message = format!("unexpected `{c}` after the quotes");
                Err(Located::new(self.at, message))
            }
            _ => Ok(Token::Word(Word { text, at })),
        }
    }

    /// A word without quotes; a brace is part of it in `${name}` and where it closes nothing.
    fn word(&mut self) -> Token {
        let at = self.at;
        let mut text = String::new();
        let mut is_variable = false;
        while let Some(c) = self.peek() {
            if is_space(c) || c == ';' || (c == '{' && !is_variable) {
                break;
            }
            self.bump();
            is_variable = c == '$';
            match c {
                '\\' => self.escaped(&mut text),
                c => text.push(c),
            }
        }
        Token::Word(Word { text, at })
    }

    /// What follows a backslash.
    fn escaped(&mut self, text: &mut String) {
        match self.bump() {
            Some(c @ ('"' | '\'' | '\\')) => text.push(c),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('n') => text.push('\n'),
            Some(c) => text.extend(['\\', c]),
            None => text.push('\\'),
        }
    }

    /// A block of Lua up to the brace that closes it, past those in strings and comments.
    fn skip_lua(&mut self, at: Place) -> Result<(), Located> {
        let mut depth = 1;
        while let Some(c) = self.bump() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                '-' if self.rest.as_str().starts_with("-") => {
                    while self.bump().is_some_and(|c| c != '\n') {}
                }
                '"' | '\'' => {
                    while let Some(inner) = self.bump() {
                        match inner {
                            '\\' => drop(self.bump()),
                            inner if inner == c => break,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
        Err(Located::new(at, "the block of Lua is not closed"))
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Deeper than any configuration, and shallow enough to be walked by recursion.
const MAX_DEPTH: usize = 64;

const LUA: &str = "_by_lua_block";

#[cfg(test)]
mod tests {
    use super::*;

    /// `name(argument argument)[block]`, and so on.
    fn shape(directives: &[Directive]) -> String {
        let one = |directive: &Directive| {
            let arguments = directive
                .arguments()
                .iter()
                .map(|word| format!("<{}>", word.text));
            let block = directive.block.as_ref();
            let block = block.map_or_else(String::new, |block| format!("[{}]", shape(block)));
            format!(
                "{}{}{block}",
                directive.name(),
                arguments.collect::<String>()
            )
        };
        directives.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_quotes_and_blocks() {
        for (text, expected) in [
            ("", ""),
            ("a;", "a"),
            ("a b  c\t d\r\n;e{}", "a<b><c><d> e[]"),
            ("a { b c; d { } } e;", "a[b<c> d[]] e"),
            ("a 'b c' \"d;{}#'\";", "a<b c><d;{}#'>"),
            (
                r#"a "b\"c" 'd\'e' f\ g "h\\i" j\tk "\x";"#,
                "a<b\"c><d'e><f\\ g><h\\i><j\tk><\\x>",
            ),
            ("# all; of { this\na b; # and this\n#", "a<b>"),
            ("a b#c d}e;", "a<b#c><d}e>"),
            ("hash ${a}b$c;", "hash<${a}b$c>"),
            (
                "map $a $b { default x; ~^(.*)$ $1; }",
                "map<$a><$b>[default<x> ~^(.*)$<$1>]",
            ),
            ("if ($a = \"b\") { c; }", "if<($a><=><b><)>[c]"),
            (
                "x_by_lua_block { local a = {b = '}'} -- }\n c('\\'}') } d;",
                "x_by_lua_block[] d",
            ),
            ("\u{feff}a;", "a"),
        ] {
            assert_eq!(shape(&parse(text, 0).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn places_are_counted_in_lines_and_bytes() {
        let tree = parse("a;\n  bé \"c\"\td;", 3).unwrap();
        let places: Vec<_> = tree[1].words.iter().map(|word| word.at).collect();
        let place = |column| Place {
            file: 3,
            line: 2,
            column,
        };
        assert_eq!(places, [3, 7, 11].map(place));
    }

    #[test]
    fn what_is_not_in_the_grammar_is_refused_at_its_place() {
        let deep = "a{".repeat(MAX_DEPTH + 1);
        for (text, expected) in [
            (";", "1:1: unexpected `;`"),
            ("a;\n {", "2:2: unexpected `{`"),
            ("a; }", "1:4: unexpected `}`"),
            ("a { b }", "1:5: `b` is not ended by `;`"),
            ("a { b;\n", "1:1: the block `a` is not closed"),
            ("a;\nb c", "2:1: `b` is ended neither by `;` nor by a block"),
            ("a 'b", "1:3: the quotes are not closed"),
            ("a 'b'c;", "1:6: unexpected `c` after the quotes"),
            (
                "x_by_lua_block { '}' ",
                "1:16: the block of Lua is not closed",
            ),
            (deep.as_str(), "1:130: more than 64 blocks in one another"),
        ] {
            assert_eq!(parse(text, 0).unwrap_err().to_string(), expected);
        }
    }
}
