//! What is to be drawn, out of the JSON documents of the benches.

use serde_json::Value;

use crate::Error;
use crate::chart::Series;

/// The sizes of the ranking of algorithms.
pub(crate) const SIZES: [u64; 2] = [4, 1_000];

/// The engines whose look-ups, builds and changes are drawn.
const RINGS: [&str; 4] = ["ketama V1", "ketama V2", "pingora V1", "pingora V2"];

/// One kind of figure over the points of the rings.
pub(crate) fn by_points(ring: &Value, what: &str, unit: f64) -> Result<Vec<Series>, Error> {
    let mut series = Vec::new();
    for engine in RINGS {
        let mut points = Vec::new();
        for cell in cells(ring)? {
            if text(cell, "what")? == what && text(cell, "engine")? == engine {
                let x = points_of(text(cell, "pool")?)?;
                points.push((x, number(cell, "figure")? * unit));
            }
        }
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        if !points.is_empty() {
            series.push((engine.to_owned(), points));
        }
    }
    Ok(series)
}

/// Of a pool such as `1000x10`, backends times weight.
fn points_of(pool: &str) -> Result<f64, Error> {
    let (backends, weight) = pool.split_once('x').ok_or("a pool is BACKENDSxWEIGHT")?;
    Ok(backends.parse::<f64>()? * weight.parse::<f64>()? * 160.0)
}

/// Our algorithms with everything up, each with its figure for both sizes.
pub(crate) fn by_algorithm(selection: &Value) -> Result<Vec<(String, Vec<f64>)>, Error> {
    let mut rows = Vec::<(String, Vec<f64>)>::new();
    for cell in cells(selection)? {
        let is_drawn = text(cell, "engine")? == "ours"
            && text(cell, "up")? == "all"
            && SIZES
                .map(|size| size as f64)
                .contains(&number(cell, "nodes")?);
        if !is_drawn {
            continue;
        }
        let (name, nanos) = (text(cell, "algorithm")?, number(cell, "nanoseconds")?);
        match rows.last_mut() {
            Some((last, figures)) if last == name => figures.push(nanos),
            _ => rows.push((name.to_owned(), vec![nanos])),
        }
    }
    Ok(rows)
}

/// The picks of the balancer by the number of backends, nobody down, on one thread.
pub(crate) fn by_backends(balancer: &Value) -> Result<Vec<Series>, Error> {
    let mut series = Vec::<Series>::new();
    let rows = balancer.get("select").and_then(Value::as_array);
    for row in rows.ok_or("no rows of `select`")? {
        let is_drawn = text(row, "selector")? == "Ring"
            && number(row, "down_percent")? == 0.0
            && number(row, "threads")? == 1.0;
        if !is_drawn {
            continue;
        }
        let engines = row.get("engines").and_then(Value::as_array);
        for engine in engines.ok_or("no engines")? {
            let name = text(engine, "engine")?;
            let point = (number(row, "backends")?, number(engine, "nanoseconds")?);
            match series.iter_mut().find(|(known, _)| known == name) {
                Some((_, points)) => points.push(point),
                None => series.push((name.to_owned(), vec![point])),
            }
        }
    }
    Ok(series)
}

/// One kind of figure by method, each with the figures of the groups, and the groups.
#[expect(clippy::type_complexity, reason = "bars and their groups")]
pub(crate) fn by_method(
    spread: &Value,
    what: &str,
    unit: f64,
) -> Result<(Vec<(String, Vec<f64>)>, Vec<u64>), Error> {
    let (mut series, mut groups) = (Vec::<(String, Vec<f64>)>::new(), Vec::new());
    for cell in cells(spread)? {
        let (method, figure) = (text(cell, "method")?, number(cell, what)? * unit);
        let backends = cell.get("backends").and_then(Value::as_u64);
        let backends = backends.ok_or("no number of backends")?;
        if !groups.contains(&backends) {
            groups.push(backends);
        }
        match series.last_mut() {
            Some((last, figures)) if last == method => figures.push(figure),
            _ => series.push((method.to_owned(), vec![figure])),
        }
    }
    Ok((series, groups))
}

fn cells(found: &Value) -> Result<&Vec<Value>, Error> {
    let cells = found.get("cells").and_then(Value::as_array);
    cells.ok_or_else(|| "no cells".into())
}

fn text<'a>(cell: &'a Value, key: &str) -> Result<&'a str, Error> {
    let text = cell.get(key).and_then(Value::as_str);
    text.ok_or_else(|| format!("no text {key:?} in {cell}").into())
}

fn number(cell: &Value, key: &str) -> Result<f64, Error> {
    let number = cell.get(key).and_then(Value::as_f64);
    number.ok_or_else(|| format!("no number {key:?} in {cell}").into())
}
