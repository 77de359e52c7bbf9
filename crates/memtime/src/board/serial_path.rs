//! The controller while few machines are busy, and at most one request, whose lifetime is known, is
//! at its port.

use super::event::Tag;
use super::serial::{EventCounts, Lifetime, Serial, Undisturbed};
use super::timing::Timing;
use super::{Out, Tags};
use crate::period::Period;
use crate::request::Kind;
use crate::units::Ps;

/// What is known about the outstanding request.
#[derive(Clone, Copy, Debug)]
enum Next {
    None,
    /// It meets no other request and no refresh.
    Undisturbed(Undisturbed),
    /// `SerialPath::after` is the state after its column command (read) or acceptance (write).
    Planned(Lifetime),
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct SerialPath {
    /// Whether this, and not [`super::State`], is the controller's current state.
    pub on: bool,
    base: Serial,
    next: Next,
    tag: Tag,
    place: u8,
    done_at: Ps,
    after: Serial,
    counts: EventCounts,
}

impl SerialPath {
    pub fn new(base: Serial) -> SerialPath {
        SerialPath {
            on: false,
            base,
            next: Next::None,
            tag: Tag::EMPTY,
            place: 0,
            done_at: Ps::ZERO,
            after: base,
            counts: EventCounts::default(),
        }
    }

    /// Takes over from the general state.
    pub fn enter(&mut self, base: Serial) {
        self.on = true;
        self.base = base;
        self.next = Next::None;
    }

    /// Drops the request that was foreseen last.
    pub fn withdraw(&mut self) {
        self.next = Next::None;
    }

    /// The state without the outstanding request, and that request.
    pub fn parts(&self) -> (&Serial, Option<Tag>) {
        let under_way = !matches!(self.next, Next::None);
        (&self.base, under_way.then_some(self.tag))
    }

    /// Whether a later request can change the completion of the one that was foreseen last.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.tag.kind == Kind::Read && matches!(self.next, Next::Planned(_)) && self.counts.open
    }

    /// Whether there is no outstanding request whose lifetime may still change.
    #[inline]
    pub fn is_free(&self) -> bool {
        matches!(self.next, Next::None)
    }

    /// When a request that arrives now completes, if that is known without a search.
    #[inline(always)]
    pub fn foresee(
        &mut self,
        tag: &Tag,
        t: &Timing,
        tags: &mut Tags,
        period: Period,
    ) -> Option<Ps> {
        let done = |accept, column| {
            let clock = match tag.kind {
                Kind::Read => column,
                Kind::Write => accept,
            };
            Ps::of_clock(clock + t.answer(tag.kind), period)
        };
        if let Some(lifetime) = self.base.undisturbed(tag.kind, tag.bank, t) {
            self.tag = *tag;
            self.done_at = done(lifetime.accept, lifetime.column);
            self.next = Next::Undisturbed(lifetime);
            return Some(self.done_at);
        }
        self.plan(tag, t, tags).map(|lifetime| {
            self.done_at = done(lifetime.accept, lifetime.column);
            self.done_at
        })
    }

    #[inline(never)]
    fn plan(&mut self, tag: &Tag, t: &Timing, tags: &mut Tags) -> Option<Lifetime> {
        let place = self.base.free_place();
        self.after = self.base;
        self.counts.clear();
        let lifetime = self.after.plan(tag, place, t, &mut self.counts)?;
        tags[usize::from(place) % tags.len()] = Tag {
            accepted: lifetime.accept,
            hit: lifetime.hit,
            ..*tag
        };
        self.tag = *tag;
        self.place = place;
        self.next = Next::Planned(lifetime);
        Some(lifetime)
    }

    /// Processes all clocks before `clock`. If it returns false, the general engine has to
    /// continue. If a new request `arrives` in `clock`, under a method that holds nothing at the
    /// port, the previous one may still be waiting for its column command: it is accepted first.
    #[inline(always)]
    pub fn commit(
        &mut self,
        clock: u64,
        arrives: bool,
        t: &Timing,
        tags: &mut Tags,
        out: &mut Out,
    ) -> bool {
        if clock <= self.base.now {
            return true;
        }
        match &self.next {
            Next::Undisturbed(lifetime) if clock > lifetime.end => {
                let (kind, bank) = (self.tag.kind, self.tag.bank);
                self.base.after_undisturbed(kind, bank, lifetime.end);
                out.finished(&self.tag, false, self.done_at);
                if kind == Kind::Write {
                    out.reached_medium(&self.tag, lifetime.column);
                }
                out.opened(bank);
                out.precharge(bank, kind == Kind::Write);
                self.next = Next::None;
            }
            Next::None => {}
            _ => return self.commit_planned(clock, arrives, t, tags, out),
        }
        self.pass(clock, t, tags, out);
        true
    }

    /// As [`Self::commit`], with a request that meets others or a refresh.
    #[inline(never)]
    fn commit_planned(
        &mut self,
        clock: u64,
        arrives: bool,
        t: &Timing,
        tags: &mut Tags,
        out: &mut Out,
    ) -> bool {
        if let Next::Undisturbed(_) = &self.next {
            if self.plan(&self.tag.clone(), t, tags).is_none() {
                return false;
            }
        }
        if let Next::Planned(lifetime) = &self.next {
            if clock < self.after.now {
                let accepted = arrives && clock > lifetime.accept;
                if accepted {
                    self.accept(clock, t, tags, out);
                }
                return accepted;
            }
            self.base = self.after;
            out.finished(&self.tag, lifetime.hit, self.done_at);
            out.counts(&self.counts, tags);
            self.next = Next::None;
        }
        self.pass(clock, t, tags, out);
        true
    }

    /// Processes all clocks before `clock`, where no request comes.
    #[inline(always)]
    fn pass(&mut self, clock: u64, t: &Timing, tags: &Tags, out: &mut Out) {
        if clock <= self.base.now {
            return;
        }
        if self.base.rests_until(clock, t) {
            self.base.now = clock;
        } else {
            self.advance(clock, t, tags, out);
        }
    }

    #[inline(never)]
    fn advance(&mut self, clock: u64, t: &Timing, tags: &Tags, out: &mut Out) {
        self.counts.clear();
        self.base.advance(clock, t, &mut self.counts);
        out.counts(&self.counts, tags);
    }

    /// Accepts the planned request, and processes all clocks before `clock`, in which it has not had
    /// its column command.
    fn accept(&mut self, clock: u64, t: &Timing, tags: &mut Tags, out: &mut Out) {
        let tag = tags[usize::from(self.place) % tags.len()];
        self.counts.clear();
        self.base
            .take_in(&tag, self.place, clock, t, &mut self.counts);
        out.accept(&tag);
        out.counts(&self.counts, tags);
        self.next = Next::None;
    }
}
