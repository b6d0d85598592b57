package spaces

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/text"
)

// A JSON document is rewritten in one pass that copies everything but the
// strings in the places below; numbers, order and unknown fields stay as they
// are.

// pathRules describe the values at a place in a document.
type pathRules struct {
	// fields are those in an object, elements those of each element of
	// an array.
	fields   map[string]*pathRules
	elements *pathRules
	// value is the kind of a string at the place.
	value valueKind
	// object marks the places where an API object begins. Its own tenant flattens its
	// names.
	object bool
	// reference marks the places of references to objects, whose kind may be custom.
	reference bool
}

type valueKind int

const (
	unrelated valueKind = iota
	// namespaceName is the name of a namespace.
	namespaceName
	// objectName is metadata.name, flattened in cluster-scoped objects.
	objectName
	// ownerName, identity and ownerKind are names, UIDs and kinds that are
	// flattened only for clients that join by identity (NewIdentityClientConfig), kinds
	// only if each space may define them.
	ownerName
	identity
	ownerKind
	// message is written for people.
	message
)

// maxMessage is how many bytes of a message clients get as an error, and controllers write into spaces. Tenants choose
// what their policies and webhooks say, controllers put that into the statuses of all objects that it is about, for
// which no quota has to have room, and event recorders keep thousands of them. Chosen: twice as much as an event has.
const maxMessage = 2 << 10

func reference() *pathRules {
	return &pathRules{reference: true, fields: map[string]*pathRules{
		"kind":      {value: ownerKind},
		"namespace": {value: namespaceName},
		"name":      {value: ownerName},
		"uid":       {value: identity},
	}}
}

func list(element *pathRules) *pathRules { return &pathRules{elements: element} }

// objectRules are those of an API object, or of a list of them.
var objectRules = newObjectRules()

// eventRules are those of a frame of a watch.
var eventRules = &pathRules{fields: map[string]*pathRules{"object": objectRules}}

func newObjectRules() *pathRules {
	addresses := list(&pathRules{fields: map[string]*pathRules{"targetRef": reference()}})
	messages := list(&pathRules{fields: map[string]*pathRules{"message": {value: message}}})
	object := &pathRules{object: true, fields: map[string]*pathRules{
		"metadata": {fields: map[string]*pathRules{
			"name":            {value: objectName},
			"namespace":       {value: namespaceName},
			"uid":             {value: identity},
			"ownerReferences": list(reference()),
		}},
		"preconditions":  {fields: map[string]*pathRules{"uid": {value: identity}}},
		"involvedObject": reference(),
		"regarding":      reference(),
		"related":        reference(),
		"target":         reference(),
		"message":        {value: message},
		"note":           {value: message},
		"status": {fields: map[string]*pathRules{
			"conditions": messages,
			"message":    {value: message},
			"active":     list(reference()), // of a CronJob
		}},
		"subsets":   list(&pathRules{fields: map[string]*pathRules{"addresses": addresses, "notReadyAddresses": addresses}}),
		"endpoints": addresses,
	}}
	object.fields["items"] = list(object)
	return object
}

// rewriter rewrites the documents of one request.
type rewriter struct {
	// space is the space of all objects, empty if each object names its own.
	space tenant.Name
	// identities is whether names of all objects and owners, and all UIDs, are
	// flattened (NewIdentityClientConfig).
	identities bool
	// unflatten is whether flattened names become ordinary ones.
	unflatten bool
	// refused is whether the document says why a request was refused.
	refused bool
	// shortens is whether messages that are written are cut.
	shortens bool
	// found is the space that unflattened names belong to.
	found tenant.Name
}

var errJSON = errors.New("malformed JSON")

// rewrite returns document with the names in its places rewritten. It returns the document
// itself if there is nothing to rewrite.
func (r *rewriter) rewrite(document []byte, p *pathRules) ([]byte, error) {
	if !json.Valid(document) {
		return nil, errJSON
	}
	w := &walk{rewriter: r, src: document, dst: make([]byte, 0, len(document)+64)}
	if err := w.value(p, scope{space: r.space}); err != nil {
		return nil, err
	}
	return append(w.dst, w.src[w.at:]...), nil
}

// scope describes the object that a value belongs to.
type scope struct {
	space      tenant.Name
	namespaced bool
	// custom is whether a reference is to a kind that each space may define.
	custom bool
}

// walk is one pass over a valid document.
type walk struct {
	*rewriter
	src, dst []byte
	at       int // everything before it is in dst
	pos      int
}

func (w *walk) skipSpace() {
	for w.pos < len(w.src) {
		switch w.src[w.pos] {
		case ' ', '\t', '\n', '\r', ',', ':':
			w.pos++
		default:
			return
		}
	}
}

func (w *walk) value(p *pathRules, s scope) error {
	w.skipSpace()
	switch {
	case p == nil:
		w.skip()
		return nil
	case w.src[w.pos] == '{' && p.fields != nil:
		return w.object(p, s)
	case w.src[w.pos] == '[' && p.elements != nil:
		return w.array(p.elements, s)
	case w.src[w.pos] == '"' && p.value != unrelated:
		return w.str(p.value, s)
	default:
		w.skip()
		return nil
	}
}

func (w *walk) object(p *pathRules, s scope) error {
	if p.object {
		var err error
		if s, err = w.scopeHere(s); err != nil {
			return err
		}
	}
	if p.reference && w.identities {
		s.custom = IsCustom(gjson.GetBytes(w.src[w.pos:], "apiVersion").String())
	}
	for w.pos++; ; {
		w.skipSpace()
		if w.src[w.pos] == '}' {
			w.pos++
			return nil
		}
		key, err := w.token()
		if err != nil {
			return err
		}
		if err := w.value(p.fields[key], s); err != nil {
			return err
		}
	}
}

func (w *walk) array(element *pathRules, s scope) error {
	for w.pos++; ; {
		w.skipSpace()
		if w.src[w.pos] == ']' {
			w.pos++
			return nil
		}
		if err := w.value(element, s); err != nil {
			return err
		}
	}
}

// scopeHere returns the scope of the object at the current position.
func (w *walk) scopeHere(s scope) (scope, error) {
	metadata := gjson.GetBytes(w.src[w.pos:], "metadata")
	s.namespaced = metadata.Get("namespace").String() != ""
	if w.unflatten || w.rewriter.space != "" {
		return s, nil
	}
	s.space = tenant.System
	if owner := metadata.Get("annotations." + escapedAnnotation); owner.Exists() {
		var err error
		if s.space, err = tenant.Parse(owner.String()); err != nil {
			return s, err
		}
	}
	return s, nil
}

var escapedAnnotation = strings.ReplaceAll(tenant.Annotation, ".", `\.`)

// token reads the string at the current position.
func (w *walk) token() (string, error) {
	start := w.pos
	w.skip()
	raw := w.src[start:w.pos]
	if slices.Contains(raw, '\\') {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	return string(raw[1 : len(raw)-1]), nil
}

func (w *walk) str(kind valueKind, s scope) error {
	start := w.pos
	old, err := w.token()
	if err != nil {
		return err
	}
	rewritten, err := w.mapped(old, kind, s)
	if err != nil || rewritten == old {
		return err
	}
	encoded, err := json.Marshal(rewritten)
	if err != nil {
		return err
	}
	w.dst = append(append(w.dst, w.src[w.at:start]...), encoded...)
	w.at = w.pos
	return nil
}

func (w *walk) mapped(value string, kind valueKind, s scope) (string, error) {
	if w.unflatten {
		return w.unflattened(value, kind)
	}
	switch kind {
	case message:
		if w.refused {
			return text.Cut(value, maxMessage), nil
		}
		return value, nil
	case namespaceName:
	case objectName:
		if s.namespaced && !w.identities {
			return value, nil
		}
	case ownerKind:
		if !w.identities || !s.custom {
			return value, nil
		}
	case ownerName, identity:
		if !w.identities {
			return value, nil
		}
	default:
		return value, nil
	}
	if value == "" {
		return value, nil
	}
	return tenant.Flatten(s.space, value).String(), nil
}

func (w *walk) unflattened(value string, kind valueKind) (string, error) {
	if kind == message {
		plain := tenant.PlainText(value, cmp.Or(w.rewriter.space, w.found))
		if w.shortens {
			plain = text.Cut(plain, maxMessage)
		}
		return plain, nil
	}
	owner, plain := tenant.Flat(value).Split()
	if plain == value {
		return value, nil
	}
	if known := w.rewriter.space; known != "" && known != owner {
		if (kind == objectName || kind == ownerName || kind == ownerKind) && !w.identities {
			return value, nil // an RBAC object may be called anything, and references may say anything
		}
		return "", fmt.Errorf("request in space %q names %q", known, value)
	}
	if w.found != "" && w.found != owner {
		return "", fmt.Errorf("request names two spaces, %q and %q", w.found, owner)
	}
	w.found = owner
	return plain, nil
}

// skip moves behind the value at the current position.
func (w *walk) skip() {
	switch w.src[w.pos] {
	case '"':
		for w.pos++; w.src[w.pos] != '"'; w.pos++ {
			if w.src[w.pos] == '\\' {
				w.pos++
			}
		}
		w.pos++
	case '{', '[':
		w.skipNested()
	default:
		for w.pos < len(w.src) && !strings.ContainsRune(",]} \t\r\n", rune(w.src[w.pos])) {
			w.pos++
		}
	}
}

func (w *walk) skipNested() {
	for depth := 0; ; {
		switch w.src[w.pos] {
		case '"':
			w.skip()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		w.pos++
		if depth == 0 {
			return
		}
	}
}
