//! The report as pages of HTML: one for each paper, one of all claims, and an index. The drawings are part of the pages; nothing is
//! loaded from elsewhere.

use super::figure::{self, Figure, Table};
use crate::error::LabError;
use crate::hardware::claims::Claim;
use crate::plot::{Origin, escaped, page_of};
use std::fmt::Write;

struct Paper {
    number: &'static str,
    title: &'static str,
    authors: &'static str,
}

const PAPERS: [Paper; 5] = [
    Paper {
        number: "001",
        title: "The Design and Implementation of a Log-Structured File System",
        authors: "M. Rosenblum, J. K. Ousterhout; SOSP 1991, ACM TOCS 10(1), 1992 (Sprite LFS)",
    },
    Paper {
        number: "004",
        title: "An Implementation of a Log-Structured File System for UNIX",
        authors: "M. Seltzer, K. Bostic, M. K. McKusick, C. Staelin; Winter USENIX 1993 (BSD-LFS)",
    },
    Paper {
        number: "000",
        title: "File System Logging Versus Clustering: A Performance Comparison",
        authors: "M. Seltzer, K. A. Smith, H. Balakrishnan, J. Chang, S. McMains, V. Padmanabhan; USENIX 1995",
    },
    Paper {
        number: "002",
        title: "Heuristic Cleaning Algorithms in Log-Structured File Systems",
        authors: "T. Blackwell, J. Harris, M. Seltzer; USENIX 1995. Our traces are synthetic",
    },
    Paper {
        number: "003",
        title: "File System Aging: Increasing the Relevance of File System Benchmarks",
        authors: "K. A. Smith, M. Seltzer; SIGMETRICS 1997. Our history is synthetic",
    },
];
const BEYOND: Paper = Paper {
    number: "beyond",
    title: "Beyond the papers",
    authors: "the same disks and machines, and a solid-state disk, with what firnfs does that the papers' systems did not",
};

/// Names and texts of the pages.
///
/// # Errors
/// A drawing cannot be drawn.
pub(super) fn pages(figures: &[Figure], origin: &Origin) -> Result<Vec<(String, String)>, LabError> {
    let shown: Vec<&Paper> = PAPERS
        .iter()
        .chain([&BEYOND])
        .filter(|paper| figures.iter().any(|figure| figure.paper() == paper.number))
        .collect();
    let mut pages = vec![("index.html".to_owned(), index(figures, &shown, origin))];
    for paper in &shown {
        pages.push((format!("{}.html", paper.number), page(paper, figures, &shown, origin)?));
    }
    pages.push(("claims.html".to_owned(), claims_page(figures, &shown)));
    pages.push(("claims.csv".to_owned(), claims_csv(figures)));
    Ok(pages)
}

fn document(title: &str, nav: &[&Paper], body: &str) -> String {
    let mut links = "<a href=\"index.html\">Overview</a>".to_owned();
    for paper in nav {
        let _ = write!(links, "<a href=\"{0}.html\">{0}</a>", paper.number);
    }
    links += "<a href=\"claims.html\">Claims</a>";
    page_of(title, &format!("<nav>{links}</nav>\n{body}"))
}

fn index(figures: &[Figure], papers: &[&Paper], origin: &Origin) -> String {
    let mut body = format!("<h1>The papers' figures, by firnfs</h1>\n{INTRODUCTION}");
    let seed = origin.seed.map_or("none".to_owned(), |seed| seed.to_string());
    let _ = writeln!(body, "<p>Made by <code>{}</code>, seed {seed}.</p>", escaped(&origin.command));
    for paper in papers {
        let _ = writeln!(
            body,
            "<h2><a href=\"{0}.html\">{1}</a></h2>\n<p class=\"by\">{2}</p>",
            paper.number,
            escaped(paper.title),
            escaped(paper.authors)
        );
        body += "<table><tr><th>figure</th><th>what it shows</th><th>claims that hold</th></tr>\n";
        for figure in figures.iter().filter(|figure| figure.paper() == paper.number) {
            let held = figure.claims.iter().filter(|claim| claim.holds()).count();
            let _ = writeln!(
                body,
                "<tr><td><a href=\"{}.html#{}\">{}</a></td><td>{}</td><td class=\"n\">{held} of {}</td></tr>",
                paper.number,
                anchor(figure.id),
                figure.id,
                escaped(figure.title),
                figure.claims.len()
            );
        }
        body += "</table>\n";
    }
    document("The papers' figures, by firnfs", papers, &body)
}

const INTRODUCTION: &str = "<p>Each figure runs the file system itself, its log and its Fast File System, on models of the papers' machines and disks. \
Time is virtual: the same command gives the same values on every computer. The log runs in a declared profile of 1993, which follows the papers as far \
as the format allows, and beside it with its defaults (modern). Each figure says what was put in and what came out. A claim is a value or an order that \
the paper states; one that does not hold says why. (m): the numeral is lost in our copy of the paper and given from the published text.</p>\n";

fn anchor(id: &str) -> String {
    id.replace('/', "-")
}

fn page(paper: &Paper, figures: &[Figure], papers: &[&Paper], origin: &Origin) -> Result<String, LabError> {
    let title = escaped(paper.title);
    let mut body = format!("<h1>{title}</h1>\n<p class=\"by\">{}</p>\n", escaped(paper.authors));
    let own: Vec<&Figure> = figures.iter().filter(|figure| figure.paper() == paper.number).collect();
    body += "<p>";
    for figure in &own {
        let _ = write!(body, "<a href=\"#{}\">{}</a> ", anchor(figure.id), figure.id);
    }
    body += "</p>\n";
    for figure in own {
        body += &section(figure, origin)?;
    }
    Ok(document(paper.title, papers, &body))
}

fn section(figure: &Figure, origin: &Origin) -> Result<String, LabError> {
    let mut out = format!(
        "<h2 id=\"{}\"><span class=\"id\">{}</span>{}</h2>\n",
        anchor(figure.id),
        figure.id,
        escaped(figure.title)
    );
    let _ = writeln!(
        out,
        "<dl><dt>Condition</dt><dd>{}</dd><dt>Put in</dt><dd>{}</dd></dl>",
        escaped(&figure.condition),
        escaped(figure.inputs)
    );
    for drawing in &figure.drawings {
        let svg = drawing.svg(origin)?;
        let svg = svg.find("<svg").map_or("", |at| &svg[at..]);
        let _ = writeln!(
            out,
            "<figure>\n{svg}\n<figcaption><a href=\"{0}.svg\">SVG</a> <a href=\"{0}.csv\">CSV</a></figcaption></figure>",
            drawing.file()
        );
    }
    if !figure.claims.is_empty() {
        out += "<h3>The paper and we</h3>\n";
        out += &claims_table(figure.claims.iter());
    }
    for table in &figure.tables {
        out += &html_table(table);
    }
    for note in &figure.notes {
        let _ = writeln!(out, "<p>{}</p>", escaped(note));
    }
    if !figure.differences.is_empty() {
        out += "<details><summary>Still different from the paper's systems</summary><ul>\n";
        for difference in &figure.differences {
            let _ = writeln!(out, "<li>{}</li>", escaped(difference));
        }
        out += "</ul></details>\n";
    }
    Ok(out)
}

fn html_table(table: &Table) -> String {
    let mut out = format!("<h3>{}</h3>\n<table><tr>", escaped(&table.title));
    for name in &table.header {
        let _ = write!(out, "<th>{}</th>", escaped(name));
    }
    out += "</tr>\n";
    for row in &table.rows {
        out += "<tr>";
        for (n, cell) in row.iter().enumerate() {
            let is_number = n > 0 && cell.starts_with(|first: char| first.is_ascii_digit() || first == '-');
            let class = if is_number { " class=\"n\"" } else { "" };
            let _ = write!(out, "<td{class}>{}</td>", escaped(cell));
        }
        out += "</tr>\n";
    }
    out + "</table>\n"
}

fn claims_table<'a>(claims: impl Iterator<Item = &'a Claim>) -> String {
    let mut out =
        "<table><tr><th>place</th><th>claim</th><th>paper</th><th>ours</th><th>deviation</th><th>unit</th>\
                   <th>kind</th><th>holds</th></tr>\n"
            .to_owned();
    for claim in claims {
        let class = match (claim.is_as_recorded(), claim.holds()) {
            (false, _) => "wrong",
            (true, true) => "yes",
            (true, false) => "no",
        };
        let why = claim.known_miss.map_or(String::new(), |why| format!(": {}", escaped(why)));
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td>\
             <td><span class=\"{class}\">{}</span>{why}</td></tr>",
            claim.place,
            escaped(&claim.what),
            figure::published(claim),
            figure::number(claim.ours),
            figure::deviation(claim),
            claim.unit,
            claim.kind,
            claim.verdict()
        );
    }
    out + "</table>\n"
}

fn claims_page(figures: &[Figure], papers: &[&Paper]) -> String {
    let mut body = "<h1>Claims</h1>\n<p>Reproduced, or not and why. Kind input: the value follows from a value that was put in, so that \
                    agreement shows only that the parts are assembled correctly. A verdict on red is not as recorded.</p>\n"
        .to_owned();
    for figure in figures.iter().filter(|figure| !figure.claims.is_empty()) {
        let _ = writeln!(body, "<h3>{} {}</h3>", figure.id, escaped(figure.title));
        body += &claims_table(figure.claims.iter());
    }
    document("Claims", papers, &body)
}

fn claims_csv(figures: &[Figure]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out = "figure,place,claim,paper,ours,unit,kind,holds,why_not\n".to_owned();
    for figure in figures {
        for claim in &figure.claims {
            let _ = writeln!(
                out,
                "{},{},{},{},{},{},{},{},{}",
                figure.id,
                quoted(claim.place),
                quoted(&claim.what),
                quoted(&figure::published(claim)),
                claim.ours,
                claim.unit,
                claim.kind,
                claim.holds(),
                quoted(claim.known_miss.unwrap_or(""))
            );
        }
    }
    out
}
