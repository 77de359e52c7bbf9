//! Control files: stanzas of fields (deb-control(5)).

/// One stanza.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record(Vec<(String, String)>);

impl Record {
    /// The first stanza; continuation lines are joined with a newline. `None` if there is none, or if a line is no
    /// field.
    pub fn parse(text: &str) -> Option<Record> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in text.lines() {
            if line.trim().is_empty() {
                if fields.is_empty() {
                    continue;
                }
                break;
            }
            if line.starts_with([' ', '\t']) {
                let (_, value) = fields.last_mut()?;
                value.push('\n');
                value.push_str(line.trim());
            } else {
                let (key, value) = line.split_once(':')?;
                fields.push((key.to_string(), value.trim().to_string()));
            }
        }
        (!fields.is_empty()).then_some(Record(fields))
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(k, _)| k.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
    }

    /// The value of a field; empty if there is no such field.
    pub fn text(&self, name: &str) -> &str {
        self.field(name).unwrap_or_default()
    }
}

/// All stanzas of a text, without those that are comments alone.
pub fn stanzas(text: &str) -> Vec<Record> {
    let mut found = Vec::new();
    let mut part = String::new();
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            found.extend(Record::parse(&part));
            part.clear();
        } else if !line.starts_with('#') {
            part.push_str(line);
            part.push('\n');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stanza() {
        let text =
            "\nPackage: a\nDescription: Linux\n two\n\tlines\nSize: 1436\n\nPackage: other\n";
        let r = Record::parse(text).unwrap();
        assert_eq!(r.field("description"), Some("Linux\ntwo\nlines"));
        assert_eq!((r.text("Size"), r.text("None")), ("1436", ""));
        for bad in ["", " continuation first\n", "no colon\n"] {
            assert_eq!(Record::parse(bad), None, "{bad}");
        }
        let all = stanzas("# only a comment\n\nA: 1\n# within\nB: 2\n \n\nA: 3\n");
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].text("B"), all[1].text("A")), ("2", "3"));
    }

    proptest! {
        #[test]
        fn any_text_does_not_panic(text in "(?s).{0,200}") {
            let _ = (Record::parse(&text), stanzas(&text));
        }
    }
}
