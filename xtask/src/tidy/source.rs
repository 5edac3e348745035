//! One source file: its size, its functions and the paths it names, tests left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Item, Meta, Signature, UseTree};

/// A parsed file. Everything under `#[cfg(test)]` or `#[test]` is left out.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Relative to the root of the workspace.
    pub(crate) path: String,
    pub(crate) lines: usize,
    pub(crate) functions: Vec<Function>,
    /// Every path named, as far as `use` and `mod` of the same file tell what it stands for.
    pub(crate) paths: Vec<NamedPath>,
    /// What `use` makes known in this file: the local name and what it stands for.
    pub(crate) uses: BTreeMap<String, Vec<String>>,
    /// The traits that something in this file implements, by their last name.
    pub(crate) implements: BTreeSet<String>,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// From `fn` to the closing brace; attributes and docs are free.
    pub(crate) lines: usize,
}

#[derive(Debug)]
pub(crate) struct NamedPath {
    pub(crate) line: usize,
    /// `core` and `alloc` are written `std`, `self` and `super` are resolved to `crate`; a glob
    /// ends in `*`.
    pub(crate) segments: Vec<String>,
}

impl Source {
    pub(crate) fn parse(path: &str, text: &str) -> syn::Result<Self> {
        let file = syn::parse_file(text)?;
        let mut visitor = Visitor::default();
        visitor.visit_file(&file);
        let module = module(path);
        let uses: BTreeMap<_, _> = visitor
            .uses
            .iter()
            .map(|(name, path)| (name.clone(), visitor.absolute(&module, path)))
            .collect();
        let paths = visitor
            .paths
            .iter()
            .map(|(line, path)| {
                let known = path.first().and_then(|first| uses.get(first));
                let segments = match known {
                    Some(known) => [known, path.get(1..).unwrap_or_default()].concat(),
                    None => visitor.absolute(&module, path),
                };
                NamedPath {
                    line: *line,
                    segments,
                }
            })
            .collect();
        Ok(Self {
            path: path.to_owned(),
            lines: text.lines().count() - visitor.test_lines,
            functions: visitor.functions,
            paths,
            uses,
            implements: visitor.implements,
        })
    }
}

/// The path of the module that a file is: `crates/x/src/a/b.rs` is `crate::a::b`.
fn module(path: &str) -> Vec<String> {
    let inside = path.split_once("src/").map_or(path, |(_, inside)| inside);
    let inside = inside.trim_end_matches(".rs").split('/');
    ["crate"]
        .into_iter()
        .chain(inside.filter(|name| !["lib", "main", "mod"].contains(name)))
        .map(str::to_owned)
        .collect()
}

#[derive(Default)]
struct Visitor {
    test_lines: usize,
    functions: Vec<Function>,
    paths: Vec<(usize, Vec<String>)>,
    uses: Vec<(String, Vec<String>)>,
    modules: BTreeSet<String>,
    implements: BTreeSet<String>,
}

impl Visitor {
    /// `path` of a file that is `module`, without `self`, `super` and child modules in front.
    fn absolute(&self, module: &[String], path: &[String]) -> Vec<String> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let base = &module[..module.len().saturating_sub(supers).max(1)];
        match path.first().map(String::as_str) {
            Some("super") => [base, &path[supers..]].concat(),
            Some("self") => [module, &path[1..]].concat(),
            Some("core" | "alloc") => [&["std".to_owned()], &path[1..]].concat(),
            Some(first) if self.modules.contains(first) => [module, path].concat(),
            _ => path.to_vec(),
        }
    }

    fn function(&mut self, signature: &Signature, body: &Block) {
        let line = signature.span().start().line;
        self.functions.push(Function {
            name: signature.ident.to_string(),
            line,
            lines: body.span().end().line + 1 - line,
        });
    }

    fn use_tree(&mut self, tree: &UseTree, prefix: &[String]) {
        let mut path = prefix.to_vec();
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.use_tree(&step.tree, &path);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(tree, prefix);
                }
            }
            UseTree::Name(name) => {
                if name.ident != "self" {
                    path.push(name.ident.to_string());
                }
                let local = path.last().cloned().unwrap_or_default();
                self.import(tree.span(), local, path);
            }
            UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    path.push(rename.ident.to_string());
                }
                self.import(tree.span(), rename.rename.to_string(), path);
            }
            UseTree::Glob(_) => {
                path.push("*".to_owned());
                self.paths.push((line(tree.span()), path));
            }
        }
    }

    fn import(&mut self, span: Span, local: String, path: Vec<String>) {
        self.paths.push((line(span), path.clone()));
        self.uses.push((local, path));
    }

    /// Macros are not parsed by syn: every `a::b::c` in their tokens counts as a path.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut start = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 && !path.is_empty() => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Ident(ident) => {
                    self.paths.push((start, std::mem::take(&mut path)));
                    (start, colons) = (line(ident.span()), 0);
                    path.push(ident.to_string());
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => colons = 0,
            }
        }
        self.paths.push((start, path));
        self.paths.retain(|(_, path)| !path.is_empty());
    }
}

impl<'ast> Visit<'ast> for Visitor {
    fn visit_item(&mut self, item: &'ast Item) {
        if attributes(item).iter().any(is_test) {
            let span = item.span();
            self.test_lines += span.end().line + 1 - span.start().line;
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.modules.insert(item.ident.to_string());
        visit::visit_item_mod(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree(&item.tree, &[]);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = item
            .trait_
            .as_ref()
            .and_then(|(path, _)| path.segments.last());
        self.implements
            .extend(name.map(|name| name.ident.to_string()));
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        let segments = segments.map(|segment| segment.ident.to_string()).collect();
        self.paths.push((line(path.span()), segments));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

fn line(span: Span) -> usize {
    span.start().line
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[test]`, `#[cfg(test)]` and `#[cfg(all(test, ...))]`.
fn is_test(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            condition == "test" || condition.starts_with("all(test,")
        }
        _ => false,
    }
}
