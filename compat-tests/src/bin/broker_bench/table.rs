//! Markdown tables.

/// Collects rows and prints them aligned.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        // A long run shows what it has, should it be stopped.
        eprintln!("{}", cells.join(" | "));
        self.rows.push(cells);
    }

    pub fn print(&self, title: &str) {
        println!("### {title}\n");
        let columns = self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} "));
            println!("|{}|", cells.collect::<Vec<_>>().join("|"));
            if number == 0 {
                let lines = widths.iter().map(|width| "-".repeat(width + 2));
                println!("|{}|", lines.collect::<Vec<_>>().join("|"));
            }
        }
        println!();
    }
}
