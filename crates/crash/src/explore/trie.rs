//! What is known of recoveries: which line is read next follows from the contents of the lines read so far.

use crate::subject::Recovery;
use std::collections::BTreeMap;

/// A recovery carried out.
pub(crate) type Leaf = usize;

enum End {
    /// Contents of `line` seen so far.
    Branch(u64, BTreeMap<u64, usize>),
    Leaf(Leaf),
}

struct Node {
    /// Lines with the one content seen so far.
    run: Vec<(u64, u64)>,
    end: End,
}

/// All recoveries, by what they read.
#[derive(Default)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    pub leaves: Vec<Recovery>,
}

/// A recovery read something else than one with the same contents did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unstable;

impl Trie {
    /// The recovery from the contents that `content` gives (hashes), and the lines that it reads.
    pub fn find(&self, content: &dyn Fn(u64) -> u64) -> Option<(Leaf, Vec<u64>)> {
        let mut reads = Vec::new();
        let mut node = self.nodes.first()?;
        loop {
            for &(line, hash) in &node.run {
                if content(line) != hash {
                    return None;
                }
                reads.push(line);
            }
            match &node.end {
                End::Leaf(leaf) => return Some((*leaf, reads)),
                End::Branch(line, children) => {
                    reads.push(*line);
                    node = &self.nodes[*children.get(&content(*line))?];
                }
            }
        }
    }

    /// Enters a recovery from these contents.
    pub fn insert(
        &mut self,
        recovery: Recovery,
        content: &dyn Fn(u64) -> u64,
    ) -> Result<Leaf, Unstable> {
        let path: Vec<(u64, u64)> = recovery.reads.iter().map(|&l| (l, content(l))).collect();
        let leaf = self.leaves.len();
        if self.nodes.is_empty() {
            self.nodes.push(Node {
                run: path,
                end: End::Leaf(leaf),
            });
            self.leaves.push(recovery);
            return Ok(leaf);
        }
        let new = self.nodes.len();
        let (mut at, mut rest) = (0, &path[..]);
        loop {
            let run = &self.nodes[at].run;
            let same = run.iter().zip(rest).take_while(|(a, b)| a == b).count();
            if same < run.len() {
                let (line, old) = run[same];
                match rest.get(same) {
                    Some(&(l, hash)) if l == line => {
                        let tail = self.nodes[at].run.split_off(same + 1);
                        self.nodes[at].run.truncate(same);
                        let children = BTreeMap::from([(old, new), (hash, new + 1)]);
                        let end =
                            std::mem::replace(&mut self.nodes[at].end, End::Branch(line, children));
                        self.nodes.push(Node { run: tail, end });
                        rest = &rest[same + 1..];
                        break;
                    }
                    _ => return Err(Unstable),
                }
            }
            rest = &rest[same..];
            match &mut self.nodes[at].end {
                End::Leaf(known) => {
                    let known = *known;
                    let old = &self.leaves[known];
                    let equal = rest.is_empty()
                        && (&old.outcome, old.output) == (&recovery.outcome, recovery.output);
                    return if equal { Ok(known) } else { Err(Unstable) };
                }
                End::Branch(line, children) => match rest.first() {
                    Some((l, hash)) if l == line => {
                        rest = &rest[1..];
                        if let Some(&child) = children.get(hash) {
                            at = child;
                        } else {
                            children.insert(*hash, new);
                            break;
                        }
                    }
                    _ => return Err(Unstable),
                },
            }
        }
        self.nodes.push(Node {
            run: rest.to_vec(),
            end: End::Leaf(leaf),
        });
        self.leaves.push(recovery);
        Ok(leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Outcome;
    use proptest::prelude::*;

    /// A made-up recovery: what it reads depends on what it has read.
    fn recover(contents: &[u64], reads: usize) -> Recovery {
        let (mut list, mut sum) = (Vec::new(), 7u64);
        while list.len() < reads {
            let mut line = sum % contents.len() as u64;
            while list.contains(&line) {
                line = (line + 1) % contents.len() as u64;
            }
            list.push(line);
            sum = sum.wrapping_mul(31).wrapping_add(contents[line as usize]);
        }
        Recovery {
            reads: list,
            outcome: Outcome::Ok,
            output: Some(sum),
            text: String::new(),
            stores: false,
            stored: Vec::new(),
        }
    }

    proptest! {
        #[test]
        fn what_was_seen_is_found_again(
            states in proptest::collection::vec(proptest::collection::vec(0u64..3, 6), 1..60),
            reads in 0usize..6,
        ) {
            let mut trie = Trie::default();
            for state in &states {
                let content = |l: u64| state[l as usize];
                let right = recover(state, reads);
                if let Some((leaf, lines)) = trie.find(&content) {
                    prop_assert_eq!(&trie.leaves[leaf], &right);
                    prop_assert_eq!(lines, right.reads.clone());
                }
                let leaf = trie.insert(right.clone(), &content).unwrap();
                prop_assert_eq!(&trie.leaves[leaf], &right);
            }
            for state in &states {
                let (leaf, _) = trie.find(&|l| state[l as usize]).unwrap();
                prop_assert_eq!(&trie.leaves[leaf], &recover(state, reads));
            }
        }
    }

    #[test]
    fn a_recovery_that_reads_something_else_is_told_from_one_that_does_not() {
        let mut trie = Trie::default();
        let recovery = |reads: &[u64], output| Recovery {
            reads: reads.to_vec(),
            outcome: Outcome::Ok,
            output: Some(output),
            text: String::new(),
            stores: false,
            stored: Vec::new(),
        };
        assert_eq!(trie.insert(recovery(&[1, 2], 5), &|_| 0), Ok(0));
        assert_eq!(trie.insert(recovery(&[1, 2], 5), &|_| 0), Ok(0));
        assert_eq!(trie.insert(recovery(&[1, 2], 6), &|_| 0), Err(Unstable));
        assert_eq!(trie.insert(recovery(&[1, 3], 5), &|_| 0), Err(Unstable));
        assert_eq!(trie.insert(recovery(&[1], 5), &|_| 0), Err(Unstable));
        assert_eq!(trie.insert(recovery(&[1, 2, 3], 5), &|_| 0), Err(Unstable));
        assert_eq!(trie.insert(recovery(&[1, 2], 6), &|l| l - 1), Ok(1));
        assert_eq!(trie.insert(recovery(&[1, 3], 6), &|l| l - 1), Err(Unstable));
        assert_eq!(trie.find(&|_| 0), Some((0, vec![1, 2])));
    }
}
