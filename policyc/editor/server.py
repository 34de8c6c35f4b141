"""The language server: what `policyc.editor` says of a text, in the Language Server Protocol. It writes no file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from policyc.diagnostics import Diagnostic, Edit, PolicyError, Severity, Source, Span
from policyc.editor.completion import MOST, Suggestion, suggestions
from policyc.editor.explanations import explanation
from policyc.editor.places import Places
from policyc.editor.renaming import Refused, rename, renamed_at
from policyc.semantics.checked import findings_in
from policyc.semantics.fixed import fix_source
from policyc.syntax import format_policy, parse_policy
from policyc.syntax.read import source_of
from policyc.version import __version__

PAUSE = 0.03  # seconds without another keystroke before a text is checked
FIX_ALL = "source.fixAll.policyc"
TRIGGERS = [" ", "(", ",", "=", ".", '"', "[", "{"]
KINDS = {
    "keyword": types.CompletionItemKind.Keyword,
    "field": types.CompletionItemKind.Field,
    "kind": types.CompletionItemKind.Function,
    "option": types.CompletionItemKind.Property,
    "value": types.CompletionItemKind.EnumMember,
    "name": types.CompletionItemKind.Variable,
    "file": types.CompletionItemKind.File,
}


@dataclass(frozen=True)
class Document:
    """A text in the editor, as this language reads it.

    Args:
        uri: as the editor names it.
        version: as the editor counts it.
        source: the text; empty where it is too large.
        directory: where it stands, or would: files that it names are looked up there.
        findings: all about it.
        places: of its characters.
    """

    uri: str
    version: int | None
    source: Source
    directory: Path
    findings: tuple[Diagnostic, ...]
    places: Places

    def range(self, span: Span) -> types.Range:
        """A span, as the editor counts."""
        start, end = self.places.line_and_unit(span.start), self.places.line_and_unit(max(span.start, span.end))
        return types.Range(types.Position(*start), types.Position(*end))

    def offset(self, position: types.Position) -> int:
        """The character at a position."""
        return self.places.offset(position.line, position.character)

    def edits(self, edits: Sequence[Edit]) -> types.WorkspaceEdit:
        """Edits of this text, by the name that the editor knows it under."""
        changes = [types.TextEdit(self.range(edit.span), edit.replacement) for edit in edits]
        return types.WorkspaceEdit(changes={self.uri: changes})


class Desk:
    """The texts that are open, each checked once a version."""

    def __init__(self, server: LanguageServer) -> None:
        self.server = server
        self.known: dict[str, Document] = {}

    def document(self, uri: str) -> Document:
        """A text as it is now, with its findings."""
        held = self.server.workspace.get_text_document(uri)
        known = self.known.get(uri)
        if known is None or held.version is None or known.version != held.version:
            known = self.known[uri] = self._read(uri, held.version, held.source)
        return known

    def _read(self, uri: str, version: int | None, text: str) -> Document:
        path = Path(to_fs_path(uri) or "untitled.policy")
        name = path.name or "untitled.policy"
        directory = path.parent if path.is_absolute() else Path(self.server.workspace.root_path or "nowhere")
        encoding: Any = str(getattr(self.server.workspace.position_encoding, "value", "utf-16"))
        try:
            source = source_of(name, text)
            findings = findings_in(source, directory)
        except PolicyError as error:
            source, findings = error.source, error.diagnostics
        return Document(uri, version, source, directory, findings, Places(source.text, encoding))

    def publish(self, uri: str) -> None:
        """Show the findings of a text."""
        document = self.document(uri)
        shown = [shown_finding(document, finding) for finding in document.findings]
        self.server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, diagnostics=shown, version=document.version)
        )


def shown_finding(document: Document, finding: Diagnostic) -> types.Diagnostic:
    """A finding as editors show it: with its reason, what to write, and a link to its page."""
    remarks = (("because", finding.because), ("help", finding.help))
    warning = finding.severity is Severity.WARNING
    return types.Diagnostic(
        range=document.range(finding.span),
        message="\n".join([finding.message, *(f"{word}: {text}" for word, text in remarks if text)]),
        severity=types.DiagnosticSeverity.Warning if warning else types.DiagnosticSeverity.Error,
        code=finding.code,
        code_description=types.CodeDescription(_page(finding.code)),
        source="policyc",
        related_information=[
            types.DiagnosticRelatedInformation(types.Location(document.uri, document.range(label.span)), label.text)
            for label in finding.labels
        ],
    )


def _page(code: str) -> str:
    return Path(str(files("policyc.diagnostics").joinpath("pages", f"{code}.md"))).as_uri()


def _item(document: Document, suggestion: Suggestion, typed: Span, *, snippets: bool) -> types.CompletionItem:
    text = _snippet(suggestion) if snippets and suggestion.parts else suggestion.written
    return types.CompletionItem(
        label=suggestion.label,
        kind=KINDS[suggestion.kind],
        detail=suggestion.says or None,
        filter_text=suggestion.label,
        text_edit=types.TextEdit(document.range(typed), text),
        insert_text_format=types.InsertTextFormat.Snippet
        if snippets and suggestion.parts
        else types.InsertTextFormat.PlainText,
    )


def _snippet(suggestion: Suggestion) -> str:
    """What is inserted, with places for what a person is to say."""
    text, rest = "", suggestion.written
    for number, part in enumerate(suggestion.parts, 1):
        before, found, rest = rest.partition(part) if part else (rest[:-1], "", rest[-1:])
        text += _literal(before) + f"${{{number}:{_literal(found)}}}"
    return text + _literal(rest)


def _literal(text: str) -> str:
    return re.sub(r"[\\$}]", r"\\\g<0>", text)


class Features:
    """What the server does when the editor asks."""

    def __init__(self, server: LanguageServer) -> None:
        self.server = server
        self.desk = Desk(server)

    async def changed(self, params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams) -> None:
        """Check a text once nothing was typed for a moment."""
        uri, version = params.text_document.uri, params.text_document.version
        await asyncio.sleep(PAUSE)
        held = self.server.workspace.text_documents.get(uri)
        if held is not None and held.version == version:
            self.desk.publish(uri)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        """Forget a text."""
        uri = params.text_document.uri
        self.desk.known.pop(uri, None)
        self.server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))

    def files_changed(self, _params: object) -> None:
        """Check all texts again: one of the files that they name may be another."""
        self.desk.known.clear()
        for uri in list(self.server.workspace.text_documents):
            self.desk.publish(uri)

    def hover(self, params: types.HoverParams) -> types.Hover | None:
        """The page of a finding, or what can be written with a word."""
        document = self.desk.document(params.text_document.uri)
        found = explanation(document.source, document.offset(params.position), document.findings)
        if found is None:
            return None
        content = types.MarkupContent(types.MarkupKind.Markdown, found[0])
        return types.Hover(content, document.range(found[1]))

    def completion(self, params: types.CompletionParams) -> types.CompletionList:
        """What can be written here."""
        document = self.desk.document(params.text_document.uri)
        offset = document.offset(params.position)
        begun = re.search(r"[A-Za-z_]\w*\Z", document.source.text[:offset])
        typed = Span(offset if begun is None else begun.start(), offset)
        asked = self.server.client_capabilities.text_document
        item = None if asked is None or asked.completion is None else asked.completion.completion_item
        snippets = bool(item is not None and item.snippet_support)
        found = suggestions(document.source, document.directory, offset)
        items = [_item(document, one, typed, snippets=snippets) for one in found]
        return types.CompletionList(is_incomplete=len(items) >= MOST, items=items)

    def formatting(self, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        """The canonical form; a text that cannot be read stays as it is."""
        document = self.desk.document(params.text_document.uri)
        try:
            text = format_policy(parse_policy(document.source))
        except PolicyError:
            return []
        if text == document.source.text:
            return []
        return [types.TextEdit(document.range(Span(0, len(document.source.text))), text)]

    def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """The edits of findings here, and of all findings together."""
        document = self.desk.document(params.text_document.uri)
        only = params.context.only or ["quickfix", "source"]
        start, end = document.offset(params.range.start), document.offset(params.range.end)
        actions = []
        for finding in document.findings if _asked("quickfix", only) else ():
            if finding.edit is not None and finding.span.start <= end and start <= finding.span.end:
                title = f"{finding.code}: {finding.help}"
                action = types.CodeAction(title, kind=types.CodeActionKind.QuickFix, is_preferred=True)
                action.diagnostics = [shown_finding(document, finding)]
                action.edit = document.edits([finding.edit])
                actions.append(action)
        if _asked(FIX_ALL, only):
            fixed, changes = fix_source(document.source, document.directory)
            if changes:
                whole = Edit(Span(0, len(document.source.text)), fixed.text)
                said = "write everything that can only mean one thing"
                actions.append(types.CodeAction(said, kind=FIX_ALL, edit=document.edits([whole])))
        return actions

    def prepare_rename(self, params: types.PrepareRenameParams) -> types.PrepareRenameDefaultBehavior | types.Range:
        """Where the name of a release stands."""
        document = self.desk.document(params.text_document.uri)
        with _refusals():
            _, span = renamed_at(document.source, document.offset(params.position))
        return document.range(span)

    def rename(self, params: types.RenameParams) -> types.WorkspaceEdit:
        """A release under another name."""
        document = self.desk.document(params.text_document.uri)
        with _refusals():
            edits = rename(document.source, document.offset(params.position), params.new_name)
        return document.edits(edits)


class _refusals:  # noqa: N801  used like a function
    """Says a refusal as the protocol does."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Refused):
            raise JsonRpcInvalidParams(message=str(error)) from None


def _asked(kind: str, only: Sequence[str]) -> bool:
    """Whether actions of a kind are among those that an editor asks for."""
    return any(kind == one or kind.startswith(f"{one}.") for one in map(str, (getattr(o, "value", o) for o in only)))


def make_server() -> LanguageServer:
    """The server, with all that it does."""
    # whole texts: editors and Python do not agree on what ends a line
    server = LanguageServer("policyc", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
    features = Features(server)
    kinds: list[types.CodeActionKind | str] = [types.CodeActionKind.QuickFix, FIX_ALL]
    offered: list[tuple[str, Any, Callable[..., Any]]] = [
        (types.TEXT_DOCUMENT_DID_OPEN, None, features.changed),
        (types.TEXT_DOCUMENT_DID_CHANGE, None, features.changed),
        (types.TEXT_DOCUMENT_DID_CLOSE, None, features.closed),
        (types.TEXT_DOCUMENT_DID_SAVE, None, features.files_changed),
        (types.WORKSPACE_DID_CHANGE_WATCHED_FILES, None, features.files_changed),
        (types.TEXT_DOCUMENT_HOVER, None, features.hover),
        (types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=TRIGGERS), features.completion),
        (types.TEXT_DOCUMENT_FORMATTING, None, features.formatting),
        (types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds), features.actions),
        (types.TEXT_DOCUMENT_PREPARE_RENAME, None, features.prepare_rename),
        (types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True), features.rename),
    ]
    for name, options, function in offered:
        server.feature(name, options)(partial(function))  # it is given attributes, which methods do not take
    return server


def serve() -> None:
    """Speak with an editor over standard input and output until it leaves."""
    make_server().start_io()
