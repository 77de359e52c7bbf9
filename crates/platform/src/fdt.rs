//! Device trees: plain nodes that every part contributes, and the blob made of them.

use std::collections::BTreeMap;

/// Label of the PLIC's node.
pub const PLIC_LABEL: &str = "plic";

/// Label of a hart's interrupt-controller node.
pub fn hart_label(hart: u32) -> String {
    format!("cpu{hart}_intc")
}

/// A 32-bit cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// A number.
    Int(u32),
    /// The phandle of the node with this label.
    Ref(String),
}

/// A property's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Present, without a value.
    Empty,
    /// 32-bit cells.
    Cells(Vec<Cell>),
    /// One or more strings.
    Strings(Vec<String>),
}

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// Name with unit address.
    pub name: String,
    /// Gives the node a phandle, for [`Cell::Ref`].
    pub label: Option<String>,
    /// Properties in order.
    pub properties: Vec<(String, Value)>,
    /// Child nodes in order.
    pub children: Vec<Node>,
}

impl Node {
    /// A node without unit address.
    pub fn new(name: &str) -> Node {
        Node {
            name: name.into(),
            ..Node::default()
        }
    }

    /// A node with unit address.
    pub fn at(name: &str, address: u64) -> Node {
        Node::new(&format!("{name}@{address:x}"))
    }

    /// Gives the node a label for references.
    pub fn label(mut self, label: &str) -> Node {
        self.label = Some(label.into());
        self
    }

    /// Adds any property.
    pub fn property(mut self, name: &str, value: Value) -> Node {
        self.properties.push((name.into(), value));
        self
    }

    /// Adds `compatible`.
    pub fn compatible(self, names: &[&str]) -> Node {
        self.strings("compatible", names)
    }

    /// Adds a list of strings.
    pub fn strings(self, name: &str, strings: &[&str]) -> Node {
        self.property(
            name,
            Value::Strings(strings.iter().map(|s| s.to_string()).collect()),
        )
    }

    /// Adds one string.
    pub fn string(self, name: &str, string: &str) -> Node {
        self.strings(name, &[string])
    }

    /// Adds one cell.
    pub fn u32(self, name: &str, value: u32) -> Node {
        self.cells(name, vec![Cell::Int(value)])
    }

    /// Adds a number of two cells.
    pub fn u64(self, name: &str, value: u64) -> Node {
        self.cells(name, two_cells(value).to_vec())
    }

    /// Adds cells.
    pub fn cells(self, name: &str, cells: Vec<Cell>) -> Node {
        self.property(name, Value::Cells(cells))
    }

    /// Adds a property without value.
    pub fn flag(self, name: &str) -> Node {
        self.property(name, Value::Empty)
    }

    /// Adds `reg` with two address and two size cells for each (base, size).
    pub fn reg(self, ranges: &[(u64, u64)]) -> Node {
        let cells = ranges
            .iter()
            .flat_map(|&(base, size)| [two_cells(base), two_cells(size)]);
        let cells = cells.flatten().collect();
        self.cells("reg", cells)
    }

    /// Adds an interrupt of a controller with one-cell specifiers.
    pub fn interrupt(self, controller: &str, irq: u32) -> Node {
        self.cells("interrupt-parent", vec![Cell::Ref(controller.into())])
            .u32("interrupts", irq)
    }

    /// Adds a child.
    pub fn child(mut self, node: Node) -> Node {
        self.children.push(node);
        self
    }

    /// Value of a property.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.properties
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v)
    }
}

fn two_cells(value: u64) -> [Cell; 2] {
    [Cell::Int((value >> 32) as u32), Cell::Int(value as u32)]
}

/// A tree that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum FdtError {
    /// A reference to a label that no node has.
    #[error("device tree: `{node}` refers to `{label}`, which is not attached")]
    Reference {
        /// The node that refers.
        node: String,
        /// The label.
        label: String,
    },
    /// Two nodes with a label.
    #[error("device tree: the label `{0}` is given twice")]
    Label(String),
    /// A name or value that the format does not allow.
    #[error("device tree: {0}")]
    Format(#[from] vm_fdt::Error),
}

/// Writes a tree (its root node) as a flattened device-tree blob.
pub fn flatten(root: &Node) -> Result<Vec<u8>, FdtError> {
    let mut handles = BTreeMap::new();
    number(root, &mut handles)?;
    let mut writer = vm_fdt::FdtWriter::new()?;
    write(root, &handles, &mut writer)?;
    Ok(writer.finish()?)
}

fn number(node: &Node, handles: &mut BTreeMap<String, u32>) -> Result<(), FdtError> {
    if let Some(label) = &node.label {
        let handle = handles.len() as u32 + 1;
        if handles.insert(label.clone(), handle).is_some() {
            return Err(FdtError::Label(label.clone()));
        }
    }
    node.children
        .iter()
        .try_for_each(|child| number(child, handles))
}

fn write(
    node: &Node,
    handles: &BTreeMap<String, u32>,
    writer: &mut vm_fdt::FdtWriter,
) -> Result<(), FdtError> {
    let open = writer.begin_node(&node.name)?;
    for (name, value) in &node.properties {
        match value {
            Value::Empty => writer.property_null(name)?,
            Value::Strings(list) => writer.property_string_list(name, list.clone())?,
            Value::Cells(cells) => {
                let resolve = |cell: &Cell| match cell {
                    Cell::Int(n) => Ok(*n),
                    Cell::Ref(label) => {
                        handles
                            .get(label)
                            .copied()
                            .ok_or_else(|| FdtError::Reference {
                                node: node.name.clone(),
                                label: label.clone(),
                            })
                    }
                };
                let cells = cells.iter().map(resolve).collect::<Result<Vec<_>, _>>()?;
                writer.property_array_u32(name, &cells)?;
            }
        }
    }
    if let Some(label) = &node.label {
        writer.property_phandle(handles[label])?;
    }
    for child in &node.children {
        write(child, handles, writer)?;
    }
    writer.end_node(open)?;
    Ok(())
}
