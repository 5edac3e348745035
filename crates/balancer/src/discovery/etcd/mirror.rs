//! What is known of the keys in etcd: pure, and of one revision at a time.

use std::collections::BTreeMap;

use super::EtcdError;
use crate::{Backend, schema};

/// The keys under the prefix as of one revision of the store.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    /// 0 before the first full answer.
    revision: i64,
    entries: BTreeMap<Vec<u8>, Result<Backend, EtcdError>>,
    /// Whether events have brought it further than the last answer that was given.
    has_news: bool,
    /// Whether the last watch broke off without a word.
    broken: bool,
    /// Whether that has been told, and no answer has come of it yet.
    told: bool,
}

/// One change: the revision that it made, the key, and the new value if it is not a removal.
pub(super) type Event<'a> = (i64, &'a [u8], Option<&'a [u8]>);

impl Mirror {
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// Takes over a full answer as of `revision`, which was asked for when the mirror was at
    /// `before`.
    ///
    /// A full answer is never older than what was known when it was asked for, unless the store
    /// itself went back, restored from a copy. It may be older than what events have brought
    /// meanwhile.
    pub(super) fn replace<'a>(
        &mut self,
        before: i64,
        revision: i64,
        pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        // What comes of telling is no pause, the answer after it is.
        self.broken &= std::mem::take(&mut self.told);
        if (before..self.revision).contains(&revision) {
            return;
        }
        self.revision = revision;
        self.entries = pairs
            .map(|(key, value)| (key.to_owned(), read(key, value)))
            .collect();
    }

    /// Takes over the events of a watch that began no later than just after this mirror's revision.
    /// What it knows already is passed over.
    pub(super) fn apply<'a>(&mut self, events: impl Iterator<Item = Event<'a>>) {
        let known = self.revision;
        for (revision, key, value) in events {
            if revision <= known {
                continue;
            }
            match value {
                Some(value) => drop(self.entries.insert(key.to_owned(), read(key, value))),
                None => drop(self.entries.remove(key)),
            }
            self.revision = self.revision.max(revision);
            self.has_news = true;
        }
        (self.broken, self.told) = (false, false);
    }

    /// Whether events have brought it further since the last call.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Notes that a watch broke off. Returns whether that is to be told: not twice without a pause
    /// or an event in between, or a server that breaks off every watch would be asked for ever.
    pub(super) fn note_break(&mut self) -> bool {
        let is_new = !self.broken;
        self.broken = true;
        self.told |= is_new;
        is_new
    }

    /// Whether the last watch broke off.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// The backends, or what is wrong with the first value that is no backend.
    pub(super) fn backends(&self) -> Result<Vec<Backend>, EtcdError> {
        self.entries.values().cloned().collect()
    }
}

fn read(key: &[u8], value: &[u8]) -> Result<Backend, EtcdError> {
    schema::from_json(value).map_err(|fault| EtcdError::Invalid {
        key: String::from_utf8_lossy(key).into_owned(),
        line: fault.line,
        column: fault.column,
        field: fault.key,
        message: fault.message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &[u8] = br#"{"addr": "127.0.0.1:1"}"#;
    const B: &[u8] = br#"{"addr": "127.0.0.1:2"}"#;

    fn ports(mirror: &Mirror) -> Vec<u16> {
        let backends = mirror.backends().unwrap();
        let port = |backend: &Backend| backend.addr.as_inet().unwrap().port();
        backends.iter().map(port).collect()
    }

    fn at(revision: i64, pairs: &[(&'static [u8], &'static [u8])]) -> Mirror {
        let mut mirror = Mirror::default();
        mirror.replace(0, revision, pairs.iter().copied());
        mirror
    }

    #[test]
    fn events_are_applied_once_and_in_their_order() {
        let mut mirror = at(5, &[(b"/a", A)]);
        assert!(!mirror.take_news());
        mirror.apply([(5, b"/a".as_slice(), None)].into_iter());
        assert_eq!(ports(&mirror), [1], "known already");
        assert!(!mirror.take_news());
        // One transaction is one revision.
        mirror.apply([(6, b"/a".as_slice(), Some(B)), (6, b"/b", Some(A))].into_iter());
        assert_eq!((ports(&mirror), mirror.revision()), (vec![2, 1], 6));
        mirror.apply([(7, b"/a".as_slice(), None), (8, b"/c", None)].into_iter());
        assert_eq!((ports(&mirror), mirror.revision()), (vec![1], 8));
        assert!(mirror.take_news() && !mirror.take_news());
    }

    #[test]
    fn a_full_answer_does_not_undo_events_that_overtook_it() {
        let mut mirror = at(5, &[(b"/a", A)]);
        mirror.apply([(7, b"/b".as_slice(), Some(B))].into_iter());
        mirror.replace(5, 6, [(b"/a".as_slice(), A)].into_iter());
        assert_eq!((ports(&mirror), mirror.revision()), (vec![1, 2], 7));
        mirror.replace(7, 7, [(b"/b".as_slice(), B)].into_iter());
        assert_eq!((ports(&mirror), mirror.revision()), (vec![2], 7));
    }

    #[test]
    fn a_store_that_went_back_is_believed() {
        let mut mirror = at(5, &[(b"/a", A)]);
        mirror.replace(5, 2, [(b"/b".as_slice(), B)].into_iter());
        assert_eq!((ports(&mirror), mirror.revision()), (vec![2], 2));
    }

    #[test]
    fn a_break_is_told_once_until_an_event_or_a_pause() {
        let mut mirror = at(1, &[]);
        assert!(!mirror.is_broken());
        assert!(mirror.note_break() && !mirror.note_break());
        mirror.apply([].into_iter());
        assert!(!mirror.is_broken());
        assert!(mirror.note_break() && !mirror.note_break());
        // The answer that was asked for because it was told.
        mirror.replace(1, 1, [].into_iter());
        assert!(mirror.is_broken() && !mirror.note_break());
        // The answer after a pause.
        mirror.replace(1, 1, [].into_iter());
        assert!(!mirror.is_broken() && mirror.note_break());
    }

    #[test]
    fn a_bad_value_is_an_error_until_it_is_corrected() {
        let mut mirror = at(
            1,
            &[
                (b"/a", A),
                (b"/b", br#"{"addr": "127.0.0.1:2", "weight": "2"}"#),
            ],
        );
        assert_eq!(
            mirror.backends().unwrap_err().to_string(),
            "/b:1:37: weight: invalid type: string \"2\", expected u32"
        );
        mirror.apply([(2, b"/b".as_slice(), Some(B))].into_iter());
        assert_eq!(ports(&mirror), [1, 2]);
    }
}
