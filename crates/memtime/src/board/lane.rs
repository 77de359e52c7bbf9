//! The controller as long as its requests come one after the other: few machines at
//! work, and at most one request that is waited for, whose life is known.

use super::event::Tag;
use super::serial::{Alone, Life, Serial, Tally};
use super::timing::Timing;
use super::{Out, Tags};
use crate::period::Period;
use crate::request::Kind;
use crate::units::Ps;

/// What is known of the request under way.
#[derive(Clone, Copy, Debug)]
enum Next {
    None,
    /// It meets nothing.
    Alone(Alone),
    /// `Lane::after` is the state behind its column (read) or acceptance (write).
    Planned(Life),
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// Whether this is the controller's state, and not [`super::State`].
    pub on: bool,
    base: Serial,
    next: Next,
    tag: Tag,
    done_at: Ps,
    after: Serial,
    tally: Tally,
}

impl Lane {
    pub fn new(base: Serial) -> Lane {
        Lane {
            on: false,
            base,
            next: Next::None,
            tag: Tag::EMPTY,
            done_at: Ps::ZERO,
            after: base,
            tally: Tally::default(),
        }
    }

    /// Takes over from the general state.
    pub fn enter(&mut self, base: Serial) {
        self.on = true;
        self.base = base;
        self.next = Next::None;
    }

    /// The state without the request under way, and that one.
    pub fn parts(&self) -> (&Serial, Option<Tag>) {
        let under_way = !matches!(self.next, Next::None);
        (&self.base, under_way.then_some(self.tag))
    }

    /// Whether no request is under way whose life may still change.
    #[inline]
    pub fn is_free(&self) -> bool {
        matches!(self.next, Next::None)
    }

    /// When a request that comes now is done, if that can be said without a search.
    #[inline]
    pub fn foresee(
        &mut self,
        tag: &Tag,
        t: &Timing,
        tags: &mut Tags,
        period: Period,
    ) -> Option<Ps> {
        let done = |accept, column| match tag.kind {
            Kind::Read => Ps::of_clock(column + t.read_data, period),
            Kind::Write => Ps::of_clock(accept + t.response, period),
        };
        if let Some(life) = self.base.alone(tag.kind, tag.bank, t) {
            self.tag = *tag;
            self.done_at = done(life.accept, life.column);
            self.next = Next::Alone(life);
            return Some(self.done_at);
        }
        self.plan(tag, t, tags).map(|life| {
            self.done_at = done(life.accept, life.column);
            self.done_at
        })
    }

    #[inline]
    fn plan(&mut self, tag: &Tag, t: &Timing, tags: &mut Tags) -> Option<Life> {
        let place = self.base.free_place();
        self.after = self.base;
        self.tally.clear();
        let life = self.after.plan(tag, place, t, &mut self.tally)?;
        tags[usize::from(place) % tags.len()] = Tag {
            accepted: life.accept,
            hit: life.hit,
            ..*tag
        };
        self.tag = *tag;
        self.next = Next::Planned(life);
        Some(life)
    }

    /// Processes all clocks before `clock`; false: the general engine has to go on from here.
    #[inline]
    pub fn commit(&mut self, clock: u64, t: &Timing, tags: &mut Tags, out: &mut Out) -> bool {
        if clock <= self.base.now {
            return true;
        }
        if let Next::Alone(life) = &self.next {
            if clock > life.end {
                let (kind, bank) = (self.tag.kind, self.tag.bank);
                self.base.after_alone(kind, bank, life.end);
                out.lived(&self.tag, false, self.done_at);
                out.opened(bank);
                out.precharge(bank, kind == Kind::Write);
                self.next = Next::None;
            } else if self.plan(&self.tag.clone(), t, tags).is_none() {
                return false;
            }
        }
        if let Next::Planned(life) = &self.next {
            if clock < self.after.now {
                return false;
            }
            self.base = self.after;
            out.lived(&self.tag, life.hit, self.done_at);
            out.tally(&self.tally);
            self.next = Next::None;
        }
        if clock > self.base.now {
            self.tally.clear();
            self.base.advance(clock, t, &mut self.tally);
            out.tally(&self.tally);
        }
        true
    }
}
