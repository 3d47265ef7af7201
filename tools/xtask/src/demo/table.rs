//! Tables as `kubectl get` shows them: the API server makes the cells, this aligns them.

use anyhow::{Context, Result};
use http::{Request, header::ACCEPT};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

/// Asks for a table in place of a list of objects.
const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// What the API server answers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    /// Columns with a priority above 0 are those of `-o wide`.
    #[serde(default)]
    priority: i32,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
}

/// The table of the objects at a path of the API server, aligned, one line a row.
///
/// # Errors
/// When the API server refuses, or answers with something else.
pub async fn get(client: &Client, path: &str) -> Result<String> {
    let request = Request::get(path).header(ACCEPT, AS_TABLE).body(Vec::new())?;
    let text = client.request_text(request).await.with_context(|| format!("GET {path}"))?;
    let table: Table = serde_json::from_str(&text).with_context(|| format!("{path}: no table"))?;
    Ok(aligned(&lines(&table)))
}

/// The columns that `kubectl get` shows, with their names above.
fn lines(table: &Table) -> Vec<Vec<String>> {
    let shown: Vec<usize> = (0..table.column_definitions.len())
        .filter(|&column| table.column_definitions[column].priority == 0)
        .collect();
    let mut lines: Vec<Vec<String>> =
        vec![shown.iter().map(|&c| table.column_definitions[c].name.to_uppercase()).collect()];
    for row in &table.rows {
        lines
            .push(shown.iter().map(|&c| row.cells.get(c).map_or_else(String::new, cell)).collect());
    }
    lines
}

/// The lines with their cells one below the other; the first has as many as any.
pub fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines.first().map_or(0, Vec::len)).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let padded = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(padded.collect::<Vec<_>>().join("   ").trim_end());
        text.push('\n');
    }
    text
}

/// A cell's text, as kubectl shows it: nothing for what is not set.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_wide_ones_left_out() {
        let table = serde_json::from_value(serde_json::json!({
            "columnDefinitions": [
                { "name": "Name", "priority": 0 },
                { "name": "Secret", "priority": 1 },
                { "name": "Claim" },
                { "name": "Age", "priority": 0 },
            ],
            "rows": [
                { "cells": ["public-v4-1", "x", null, "5s"] },
                { "cells": ["b", "x", "mail", 7] },
            ],
        }));
        let expected = "\
NAME          CLAIM   AGE
public-v4-1           5s
b             mail    7
";
        assert_eq!(aligned(&lines(&table.unwrap())), expected);
    }

    #[test]
    fn no_rows_leave_the_header() {
        let table = serde_json::from_str(r#"{"columnDefinitions":[{"name":"Name"}]}"#).unwrap();
        assert_eq!(aligned(&lines(&table)), "NAME\n");
    }
}
