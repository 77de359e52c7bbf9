//! Counts from a recorded stream: of this host, or *emulated*, of a run of the machine.
//!
//! Threads get the stream's threads in the order in which they are attached. Each reading of a thread takes the
//! stream's next epoch of its thread, or the next readings of counters. A stream that is too short is an error: nothing
//! runs on without emulation.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;

use nagori_epoch::record::{Header, Line, FORMAT, VERSION};
use nagori_epoch::{Counts, Moving, Reading, Sharing};
use nagori_memtime::Period;

use super::{Clocks, Gather, Source, Tid, Unusable};

/// A recorded stream.
#[derive(Debug)]
pub struct Recorded {
    name: String,
    header: Header,
    streams: BTreeMap<u32, Stream>,
    threads: BTreeMap<Tid, u32>,
    given: usize,
    ends: End,
}

/// What happens when a thread has used up its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is an error.
    Error,
    /// It begins anew.
    Repeat,
}

#[derive(Debug)]
struct Stream {
    steps: VecDeque<(usize, What)>,
    moving: Moving,
    gather: Gather,
}

type Readings = BTreeMap<String, Reading>;

#[derive(Clone, Debug)]
enum What {
    Counts(Counts),
    Reading(u32, Readings),
    Move([(u32, Readings); 2]),
}

impl What {
    /// The name of a count that there is not.
    fn unknown(&self) -> Option<&str> {
        let known = |n: &&String| Counts::default().field(n).is_some();
        let all: Vec<&Readings> = match self {
            What::Counts(_) => Vec::new(),
            What::Reading(_, r) => vec![r],
            What::Move([a, b]) => vec![&a.1, &b.1],
        };
        all.into_iter()
            .flat_map(|r| r.keys())
            .find(|n| !known(n))
            .map(String::as_str)
    }
}

impl Recorded {
    /// Reads a whole stream.
    ///
    /// # Errors
    /// If a line is not as docs/epoch.md says, with its number.
    pub fn new(name: &str, text: impl BufRead, ends: End) -> Result<Recorded, Unusable> {
        let at = |line: usize, why: String| Unusable::Record {
            place: format!("{name}:{line}"),
            why,
        };
        let mut lines = text.lines().enumerate().map(|(i, l)| (i + 1, l));
        let (_, first) = lines.next().ok_or_else(|| at(1, "it is empty".into()))?;
        let first = first.map_err(|e| at(1, e.to_string()))?;
        let header: Header =
            serde_json::from_str(&first).map_err(|e| at(1, format!("header: {e}")))?;
        if header.format != FORMAT {
            return Err(at(
                1,
                format!("format `{}`, but `{FORMAT}` is expected", header.format),
            ));
        }
        if header.version != VERSION {
            return Err(at(
                1,
                format!("version {}, but {VERSION} is expected", header.version),
            ));
        }
        let mut streams = BTreeMap::new();
        for (number, line) in lines {
            let line = line.map_err(|e| at(number, e.to_string()))?;
            if line.trim().is_empty() {
                continue;
            }
            let line: Line = serde_json::from_str(&line).map_err(|e| at(number, e.to_string()))?;
            let (thread, what) = match line {
                Line::Epoch {
                    thread,
                    counts,
                    start_ps,
                    end_ps,
                    ..
                } => {
                    if end_ps < start_ps {
                        return Err(at(number, "the epoch ends before it begins".into()));
                    }
                    (thread, What::Counts(counts))
                }
                Line::Reading {
                    thread,
                    cpu,
                    counters,
                    ..
                } => (thread, What::Reading(cpu, counters)),
                Line::Move {
                    thread,
                    from,
                    leaving,
                    to,
                    arriving,
                    ..
                } => (thread, What::Move([(from, leaving), (to, arriving)])),
            };
            if let Some(bad) = what.unknown() {
                return Err(at(number, format!("there is no count `{bad}`")));
            }
            let stream = streams.entry(thread).or_insert_with(|| Stream {
                steps: VecDeque::new(),
                moving: Moving::new(header.width, Sharing::default()),
                gather: Gather::default(),
            });
            stream.steps.push_back((number, what));
        }
        if streams.is_empty() {
            return Err(at(1, "there is nothing after the header".into()));
        }
        let name = name.to_owned();
        Ok(Recorded {
            name,
            header,
            streams,
            threads: BTreeMap::new(),
            given: 0,
            ends,
        })
    }

    /// Clock of the stall cycles in it.
    pub fn clock(&self) -> Period {
        self.header.clock
    }

    fn defect(&self, line: usize, event: String, defect: nagori_epoch::Defect) -> Unusable {
        Unusable::Record {
            place: format!("{}:{line}", self.name),
            why: format!("{event}: {defect}"),
        }
    }

    /// The next step of a stream, which goes to its end again if it repeats.
    fn next(&mut self, number: u32) -> Option<(usize, What)> {
        let ends = self.ends;
        let steps = &mut self.streams.get_mut(&number)?.steps;
        let step = steps.pop_front()?;
        if ends == End::Repeat && matches!(step.1, What::Counts(_)) {
            steps.push_back(step.clone());
        }
        Some(step)
    }
}

impl Source for Recorded {
    fn describe(&self) -> String {
        format!("recorded counts of {} ({})", self.header.source, self.name)
    }

    fn attach(&mut self, thread: Tid, _: Clocks) -> Result<(), Unusable> {
        let keys: Vec<u32> = self.streams.keys().copied().collect();
        let Some(&number) = keys.get(self.given) else {
            let why = format!("it has {} threads, and the program has more", keys.len());
            return Err(Unusable::Record {
                place: self.name.clone(),
                why,
            });
        };
        self.given += 1;
        self.threads.insert(thread, number);
        // A stream of readings begins with what the counters said at the start.
        let stream = self
            .streams
            .get_mut(&number)
            .map(|s| s.steps.front().cloned());
        if let Some(Some((line, What::Reading(cpu, now)))) = stream {
            self.next(number);
            let arrived = self
                .streams
                .get_mut(&number)
                .map(|s| s.moving.arrive(cpu, &now));
            if let Some(Err((event, defect))) = arrived {
                return Err(self.defect(line, event, defect));
            }
        }
        Ok(())
    }

    fn read(&mut self, thread: Tid, _: Clocks) -> Result<Option<Counts>, Unusable> {
        let Some(&number) = self.threads.get(&thread) else {
            return Ok(Some(Counts::default()));
        };
        loop {
            let Some((line, what)) = self.next(number) else {
                let why = format!("the stream of thread {number} ends before the program");
                return Err(Unusable::Record {
                    place: self.name.clone(),
                    why,
                });
            };
            let Some(stream) = self.streams.get_mut(&number) else {
                return Ok(None);
            };
            let defect = match what {
                What::Counts(counts) => return Ok(Some(counts)),
                What::Reading(cpu, now) => match stream.moving.read(cpu, &now) {
                    Ok(steps) => {
                        let steps = steps.iter().map(|(n, &s)| (n.as_str(), s));
                        return Ok(stream.gather.add(steps));
                    }
                    Err(e) => e,
                },
                What::Move([(from, leaving), (to, arriving)]) => {
                    let left = stream.moving.leave(from, &leaving);
                    match left.and_then(|()| stream.moving.arrive(to, &arriving)) {
                        Ok(()) => continue,
                        Err(e) => e,
                    }
                }
            };
            return Err(self.defect(line, defect.0, defect.1));
        }
    }

    fn detach(&mut self, thread: Tid) {
        self.threads.remove(&thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"format":"nagori-epoch-counters","version":1,"source":"test","clock":"2 GHz","width":48}"#;

    fn source(lines: &[&str]) -> Result<Recorded, Unusable> {
        let text = [&[HEADER], lines].concat().join("\n");
        Recorded::new("x", text.as_bytes(), End::Error)
    }

    fn reading(cpu: u32, counters: &str) -> String {
        format!(
            r#"{{"kind":"reading","thread":0,"at_ps":0,"cpu":{cpu},"counters":{{{counters}}}}}"#
        )
    }

    /// What the second and later lines of a stream say, one after the other.
    fn counts(lines: &[String]) -> Vec<Result<Option<Counts>, String>> {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut s = source(&lines).unwrap();
        s.attach(Tid(9), Clocks::default()).unwrap();
        (1..lines.len())
            .map(|_| s.read(Tid(9), Clocks::default()).map_err(|e| e.to_string()))
            .collect()
    }

    fn misses(n: u64) -> Result<Option<Counts>, String> {
        Ok(Some(Counts {
            llc_misses: n,
            ..Counts::default()
        }))
    }

    #[test]
    fn a_counter_that_wraps() {
        let most = (1u64 << 48) - 1;
        let found = counts(&[
            reading(0, &format!(r#""llc_misses":[{most},0,0]"#)),
            reading(0, r#""llc_misses":[9,0,0]"#),
        ]);
        assert_eq!(found, [misses(10)]);
    }

    #[test]
    fn a_counter_that_shares_its_hardware() {
        let found = counts(&[
            reading(0, r#""llc_misses":[0,0,0]"#),
            reading(0, r#""llc_misses":[10,2000,1000]"#),
            reading(0, r#""llc_misses":[10,3000,1000]"#),
            reading(0, r#""llc_misses":[20,4000,2000]"#),
        ]);
        assert_eq!(found, [misses(20), Ok(None), misses(20)]);
        let found = counts(&[
            reading(0, r#""llc_misses":[0,0,0]"#),
            reading(0, r#""llc_misses":[10,10000,100]"#),
        ]);
        assert!(
            found[0].as_ref().unwrap_err().contains("x:3")
                && found[0].as_ref().unwrap_err().contains("more counters")
        );
    }

    #[test]
    fn counters_that_have_their_turns_at_different_times_lose_nothing() {
        let found = counts(&[
            reading(0, r#""llc_misses":[0,0,0],"llc_hits":[0,0,0]"#),
            reading(0, r#""llc_misses":[10,1000,1000],"llc_hits":[0,1000,0]"#),
            reading(0, r#""llc_misses":[15,2000,2000],"llc_hits":[7,2000,1000]"#),
        ]);
        let both = Counts {
            llc_misses: 15,
            llc_hits: 14,
            ..Counts::default()
        };
        assert_eq!(found, [Ok(None), Ok(Some(both))]);
    }

    #[test]
    fn a_thread_that_moves() {
        let moved = concat!(
            r#"{"kind":"move","thread":0,"at_ps":0,"from":0,"leaving":{"llc_misses":[130,0,0]},"#,
            r#""to":1,"arriving":{"llc_misses":[7,0,0]}}"#,
        );
        let mut lines = vec![
            reading(0, r#""llc_misses":[100,0,0]"#),
            moved.to_owned(),
            reading(1, r#""llc_misses":[12,0,0]"#),
        ];
        assert_eq!(counts(&lines)[0], misses(35));
        // Without the line that says so, the difference of two CPUs' counters would be no count of anything.
        lines.remove(1);
        assert!(counts(&lines)[0]
            .as_ref()
            .unwrap_err()
            .contains("the thread is on CPU 0"));
    }

    #[test]
    fn a_stream_that_is_too_short_is_an_error() {
        let epoch = r#"{"kind":"epoch","thread":0,"start_ps":0,"end_ps":5,"cause":"time","counts":{"llc_misses":3}}"#;
        let mut s = source(&[epoch]).unwrap();
        s.attach(Tid(1), Clocks::default()).unwrap();
        assert_eq!(
            s.read(Tid(1), Clocks::default()).map_err(|e| e.to_string()),
            misses(3)
        );
        assert!(s
            .read(Tid(1), Clocks::default())
            .unwrap_err()
            .to_string()
            .contains("ends before the program"));
        assert!(s
            .attach(Tid(2), Clocks::default())
            .unwrap_err()
            .to_string()
            .contains("the program has more"));
        let text = [HEADER, epoch].join("\n");
        let mut s = Recorded::new("x", text.as_bytes(), End::Repeat).unwrap();
        s.attach(Tid(1), Clocks::default()).unwrap();
        for _ in 0..3 {
            assert_eq!(
                s.read(Tid(1), Clocks::default()).map_err(|e| e.to_string()),
                misses(3)
            );
        }
    }

    #[test]
    fn damaged_streams_name_the_line() {
        for (lines, place, why) in [
            (&["{"][..], "x:2", "EOF"),
            (&[], "x:1", "nothing after the header"),
            (
                &[
                    r#"{"kind":"reading","thread":0,"at_ps":0,"cpu":0,"counters":{"misses":[0,0,0]}}"#,
                ],
                "x:2",
                "no count `misses`",
            ),
            (
                &[
                    r#"{"kind":"epoch","thread":0,"start_ps":6,"end_ps":5,"cause":"time","counts":{}}"#,
                ],
                "x:2",
                "ends before it begins",
            ),
            (
                &[
                    r#"{"kind":"epoch","thread":0,"start_ps":0,"end_ps":5,"cause":"moon","counts":{}}"#,
                ],
                "x:2",
                "moon",
            ),
        ] {
            let e = source(lines).unwrap_err().to_string();
            assert!(e.contains(place) && e.contains(why), "{e}");
        }
        let other = HEADER.replace("\"version\":1", "\"version\":2");
        let e = Recorded::new("x", other.as_bytes(), End::Error)
            .unwrap_err()
            .to_string();
        assert!(e.contains("version 2"), "{e}");
        assert!(Recorded::new("x", &b""[..], End::Error).is_err());
    }
}
