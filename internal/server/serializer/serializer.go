package serializer

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// separator stands before and after an object's tenant, which follows its link
// while both travel through the encoder in the field selfLink. It is chosen at random for each
// process, so that no stored value can contain it. Its first byte is a rare one, for
// which a text is searched fast.
var (
	separator     = newSeparator()
	separatorText = string(separator)
)

func newSeparator() []byte {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		panic(fmt.Sprintf("reading random bytes: %v", err)) // crypto/rand does not fail
	}
	return []byte("~" + hex.EncodeToString(random))
}

type serializer struct {
	runtime.Serializer
	links      Links
	identifier runtime.Identifier
}

func wrapSerializer(delegate runtime.Serializer, links Links) runtime.Serializer {
	if delegate == nil {
		return nil
	}
	return &serializer{Serializer: delegate, links: links, identifier: delegate.Identifier() + ",tenant"}
}

// Identifier implements runtime.Encoder.
func (s *serializer) Identifier() runtime.Identifier { return s.identifier }

// Encode implements runtime.Encoder.
func (s *serializer) Encode(obj runtime.Object, w io.Writer) error {
	if cacheable, ok := obj.(runtime.CacheableObject); ok {
		return cacheable.CacheEncode(s.identifier, s.encode, w)
	}
	return s.encode(obj, w)
}

func (s *serializer) encode(obj runtime.Object, w io.Writer) error {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if _, ok := obj.(metav1.ObjectMetaAccessor); ok {
		linked, tenanted := s.link(obj, gvk)
		if tenanted {
			w = &tenantWriter{delegate: w}
		}
		return s.Serializer.Encode(linked, w)
	}
	if _, ok := obj.(metav1.ListMetaAccessor); ok && meta.IsListType(obj) {
		return s.encodeList(obj, gvk, w)
	}
	return s.Serializer.Encode(obj, w)
}

// link returns a copy of obj with its link in selfLink, and reports whether a
// tenant follows it there. Objects of the watch cache are shared, so obj itself
// is left alone.
func (s *serializer) link(obj runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, bool) {
	linked := objects.ShallowCopy(obj)
	accessor, ok := linked.(metav1.ObjectMetaAccessor)
	if !ok {
		return obj, false
	}
	return linked, setLink(accessor.GetObjectMeta(), s.links[gvk])
}

func setLink(object metav1.Object, served resource) bool {
	n := tenant.System
	name, tenanted := object.GetAnnotations()[tenant.Annotation]
	if tenanted {
		n = tenant.Name(name)
	}
	link := served.path(n, object.GetNamespace(), object.GetName())
	if link == "" {
		return false
	}
	if tenanted {
		link += separatorText + name + separatorText
	}
	object.SetSelfLink(link)
	return tenanted
}

// encodeList links the items in place: a list belongs to its request.
func (s *serializer) encodeList(list runtime.Object, gvk schema.GroupVersionKind, w io.Writer) error {
	item := gvk
	if length := len(gvk.Kind) - len("List"); length > 0 {
		item.Kind = gvk.Kind[:length]
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	served, tenanted := s.links[item], false
	for _, obj := range items {
		if accessor, ok := obj.(metav1.ObjectMetaAccessor); ok && setLink(accessor.GetObjectMeta(), served) {
			tenanted = true
		}
	}
	return inFewPieces(w, func(w io.Writer) error {
		if tenanted {
			w = &tenantWriter{delegate: w}
		}
		return encodeList(s.Serializer, list, items, w)
	})
}

// Decode implements runtime.Decoder. It takes out the tenant and the link that Encode put
// in, and clients send back: a JSON patch is applied to the encoded object. Admission
// compares what comes in with what is stored, which has no link.
func (s *serializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if bytes.Contains(data, []byte(`"tenant"`)) && gjson.GetBytes(data, "metadata.tenant").Exists() {
		if stripped, err := sjson.DeleteBytes(data, "metadata.tenant"); err == nil {
			data = stripped
		}
	}
	obj, gvk, err := s.Serializer.Decode(data, defaults, into)
	if linked, ok := obj.(metav1.ObjectMetaAccessor); ok && err == nil {
		linked.GetObjectMeta().SetSelfLink("")
	}
	return obj, gvk, err
}

// tenantWriter makes two fields of "selfLink": "<link><separator><tenant><separator>".
// The encoders write a field with one call of Write.
type tenantWriter struct {
	delegate io.Writer
}

// Write implements io.Writer.
func (w *tenantWriter) Write(p []byte) (int, error) {
	rest := p
	write := func(b []byte) (err error) {
		if len(b) > 0 {
			_, err = w.delegate.Write(b)
		}
		return err
	}
	for {
		before, after, found := bytes.Cut(rest, separator)
		if err := write(before); err != nil {
			return 0, err
		}
		if !found {
			return len(p), nil
		}
		name, after, _ := bytes.Cut(after, separator)
		begin, end := fieldBreak(before, after)
		for _, part := range [][]byte{begin, name, end} {
			if err := write(part); err != nil {
				return 0, err
			}
		}
		rest = after
	}
}

var (
	quote     = []byte(`"`)
	jsonBreak = []byte(`","tenant":"`)
)

// fieldBreak returns what ends the field selfLink and begins the field tenant, and
// what ends the tenant, in the format of the text before and after. In JSON the value
// is in quotes; in YAML it is not, but that of the tenant is: names such as 123 and
// null are strings in quotes alone.
func fieldBreak(before, after []byte) (begin, end []byte) {
	if bytes.HasPrefix(after, quote) {
		return jsonBreak, nil
	}
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	indent := len(line) - len(bytes.TrimLeft(line, " -"))
	return slices.Concat([]byte("\n"), bytes.Repeat([]byte(" "), indent), []byte(`tenant: "`)), quote
}
