//! Three kinds of pictures: black on white, so that they can be read on a dark page too.

use std::path::Path;

use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor;

use crate::Error;

/// A name and its points.
pub(crate) type Series = (String, Vec<(f64, f64)>);

/// Lines over a quantity that spans decades.
pub(crate) struct Lines<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    pub(crate) scale: Scale,
    pub(crate) series: Vec<Series>,
}

/// Of the figure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// It spans decades too.
    Decades,
    /// From 0.
    Even,
}

/// Groups of bars.
pub(crate) struct Bars<'a> {
    pub(crate) title: &'a str,
    pub(crate) y: &'a str,
    pub(crate) from: f64,
    pub(crate) groups: Vec<String>,
    /// For each name a bar in each group.
    pub(crate) series: Vec<(String, Vec<f64>)>,
}

/// Bars that lie, with their names before them.
pub(crate) struct Ranking<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: &'a str,
    /// For each name a bar of each series.
    pub(crate) rows: Vec<(String, Vec<f64>)>,
    pub(crate) series: &'a [String],
}

impl Lines<'_> {
    pub(crate) fn draw(&self, file: &Path) -> Result<(), Error> {
        let points = || self.series.iter().flat_map(|(_, points)| points);
        let (left, right) = decades(points().map(|point| point.0)).ok_or("nothing to draw")?;
        let (low, high) = decades(points().map(|point| point.1)).ok_or("nothing to draw")?;
        let most = points().map(|point| point.1).fold(0.0, f64::max);
        let area = white(file, HEIGHT)?;
        let mut builder = ChartBuilder::on(&area);
        builder
            .caption(self.title, (FONT, TITLE))
            .margin(12)
            .margin_right(48)
            .x_label_area_size(46)
            .y_label_area_size(64);
        let x = (left..right).log_scale();
        match self.scale {
            Scale::Decades => {
                self.fill(builder.build_cartesian_2d(x, (low..high).log_scale())?)?;
            }
            Scale::Even => self.fill(builder.build_cartesian_2d(x, 0.0..most * 1.4)?)?,
        }
        Ok(area.present()?)
    }

    fn fill<'a, 'b: 'a, X, Y>(&self, mut chart: Chart<'a, 'b, X, Y>) -> Result<(), Error>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .x_label_formatter(&|value| plain(*value))
            .y_label_formatter(&|value| plain(*value))
            .label_style((FONT, LABEL))
            .axis_desc_style((FONT, LABEL))
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .draw()?;
        for (index, (name, points)) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
            chart.draw_series(line)?.label(name).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3))
            });
            let dots = points
                .iter()
                .map(|&point| Circle::new(point, 4, colour.filled()));
            chart.draw_series(dots)?;
        }
        legend(&mut chart, SeriesLabelPosition::UpperLeft)
    }
}

impl Bars<'_> {
    pub(crate) fn draw(&self, file: &Path) -> Result<(), Error> {
        let figures = self.series.iter().flat_map(|(_, figures)| figures);
        let top = figures.copied().fold(self.from, f64::max) * 1.1;
        let area = white(file, HEIGHT)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, (FONT, TITLE))
            .margin(12)
            .x_label_area_size(30)
            .y_label_area_size(64)
            .build_cartesian_2d(-0.5..self.groups.len() as f64 + LEGEND, self.from..top)?;
        chart
            .configure_mesh()
            .y_desc(self.y)
            .disable_x_mesh()
            .x_labels(2 * self.groups.len())
            .x_label_formatter(&|value| name_at(&self.groups, *value))
            .label_style((FONT, LABEL))
            .axis_desc_style((FONT, LABEL))
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .draw()?;
        let width = 0.8 / self.series.len() as f64;
        for (index, (name, figures)) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let bars = figures.iter().enumerate().map(|(group, &figure)| {
                let left = group as f64 - 0.4 + index as f64 * width;
                let corners = [(left, self.from), (left + width * 0.9, figure)];
                Rectangle::new(corners, colour.filled())
            });
            chart.draw_series(bars)?.label(name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
            });
            let values = figures.iter().enumerate().map(|(group, &figure)| {
                let middle = group as f64 - 0.4 + (index as f64 + 0.45) * width;
                let style = (FONT, VALUE).into_font().color(&BLACK);
                let style = style.pos(text_anchor::Pos::new(
                    text_anchor::HPos::Center,
                    text_anchor::VPos::Bottom,
                ));
                Text::new(short(figure), (middle, figure), style)
            });
            chart.draw_series(values)?;
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight)?;
        Ok(area.present()?)
    }
}

impl Ranking<'_> {
    pub(crate) fn draw(&self, file: &Path) -> Result<(), Error> {
        let figures = || {
            self.rows
                .iter()
                .flat_map(|(_, figures)| figures.iter().copied())
        };
        let (left, right) = decades(figures()).ok_or("nothing to draw")?;
        let names: Vec<_> = self
            .rows
            .iter()
            .rev()
            .map(|(name, _)| name.clone())
            .collect();
        let area = white(file, 90 + 34 * u32::try_from(names.len())?)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, (FONT, TITLE))
            .margin(12)
            .margin_right(48)
            .x_label_area_size(46)
            .y_label_area_size(160)
            .build_cartesian_2d((left..right).log_scale(), -0.5..names.len() as f64 - 0.5)?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .disable_y_mesh()
            .y_labels(2 * names.len())
            .x_label_formatter(&|value| plain(*value))
            .y_label_formatter(&|value| name_at(&names, *value))
            .label_style((FONT, LABEL))
            .axis_desc_style((FONT, LABEL))
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .draw()?;
        let width = 0.8 / self.series.len() as f64;
        for (index, name) in self.series.iter().enumerate() {
            let colour = COLOURS[index * 2 % COLOURS.len()];
            let bars = self
                .rows
                .iter()
                .rev()
                .enumerate()
                .filter_map(|(row, (_, figures))| {
                    let top = row as f64 + 0.4 - index as f64 * width;
                    let corners = [(left, top), (*figures.get(index)?, top - width * 0.9)];
                    Some(Rectangle::new(corners, colour.filled()))
                });
            chart.draw_series(bars)?.label(name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
            });
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight)?;
        Ok(area.present()?)
    }
}

type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn white(file: &Path, height: u32) -> Result<Area<'_>, Error> {
    let area = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    Ok(area)
}

fn legend<'a, 'b: 'a, X, Y>(
    chart: &mut Chart<'a, 'b, X, Y>,
    position: SeriesLabelPosition,
) -> Result<(), Error>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .label_font((FONT, LABEL))
        .draw()?;
    Ok(())
}

/// Whole decades around the values, none of which is 0.
fn decades(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let least = values.clone().reduce(f64::min)?;
    let most = values.reduce(f64::max)?;
    Some((
        10f64.powf(least.log10().floor()),
        10f64.powf(most.log10().ceil()),
    ))
}

/// The name of the place `value`, if it is one.
fn name_at(names: &[String], value: f64) -> String {
    let place = value.round();
    if (value - place).abs() > 1e-6 || place < 0.0 {
        return String::new();
    }
    names.get(place as usize).cloned().unwrap_or_default()
}

/// 1,000,000 and not 1e6.
fn plain(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn short(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

/// The room that the names take beside groups of bars, in groups.
const LEGEND: f64 = 0.3;

const FONT: &str = "sans-serif";
const TITLE: u32 = 20;
const LABEL: u32 = 14;
const VALUE: u32 = 11;
const WIDTH: u32 = 760;
const HEIGHT: u32 = 440;
const GRID: RGBColor = RGBColor(220, 220, 220);

/// Told apart by those who do not tell all colours apart (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];
