package serializer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8sserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/internal/tenant"
)

// streaming encodes lists item by item, as servers do.
var streaming = k8sserializer.NewCodecFactory(scheme.Scheme, k8sserializer.WithStreamingCollectionEncodingToJSON(),
	k8sserializer.WithStreamingCollectionEncodingToProtobuf())

// compressed is from how many bytes on upstream compresses answers.
const compressed = 128 << 10

// written keeps the sizes of what is written to it, and all of it.
type written struct {
	bytes.Buffer
	sizes []int
}

func (w *written) Write(p []byte) (int, error) {
	w.sizes = append(w.sizes, len(p))
	return w.Buffer.Write(p)
}

func TestPieces(t *testing.T) {
	for name, tc := range map[string]struct {
		parts, size int
		want        []int
	}{
		"a list that is not compressed": {parts: compressed / 16, size: 16, want: []int{compressed}},
		"one that is":                   {parts: compressed + 1, size: 1, want: []int{compressed + 1}},
		"one full piece":                {parts: 1, size: pieceSize, want: []int{pieceSize}},
		"several":                       {parts: 3, size: pieceSize - 1, want: []int{pieceSize, pieceSize, pieceSize - 3}},
		"a large part":                  {parts: 1, size: 2*pieceSize + 1, want: []int{pieceSize, pieceSize, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var got written
			var want bytes.Buffer
			if err := inFewPieces(&got, func(w io.Writer) error {
				for i := range tc.parts {
					part := bytes.Repeat([]byte{byte(i)}, tc.size)
					want.Write(part)
					if n, err := w.Write(part); n != len(part) || err != nil {
						return fmt.Errorf("%d of %d bytes: %w", n, len(part), err)
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.sizes); diff != "" {
				t.Errorf("sizes of pieces (-want, +got):\n%s", diff)
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Error("something else was written")
			}
		})
	}
}

// TestNothingIsWrittenOfWhatFails keeps upstream able to answer with an error.
func TestNothingIsWrittenOfWhatFails(t *testing.T) {
	var got written
	failed := errors.New("an item that cannot be encoded")
	if err := inFewPieces(&got, func(w io.Writer) error {
		_, _ = w.Write([]byte("begin"))
		return failed
	}); !errors.Is(err, failed) {
		t.Error(err)
	}
	if got.sizes != nil {
		t.Errorf("%q was written", got.String())
	}
}

// broken fails to write, and keeps what it was given.
type broken struct{ kept []byte }

func (b *broken) Write(p []byte) (int, error) {
	b.kept = p
	return 0, io.ErrClosedPipe
}

// TestMemoryOfBrokenConnections is about answers to others: a connection that fails
// may read what it was given for a moment longer.
func TestMemoryOfBrokenConnections(t *testing.T) {
	var connection broken
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, s)
			return err
		}
	}
	if err := inFewPieces(&connection, text("of one tenant")); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	for range 100 {
		if err := inFewPieces(io.Discard, text("of the others")); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(connection.kept); got != "of one tenant" {
		t.Errorf("the connection has %q", got)
	}
}

func TestProtobufIsUpstreams(t *testing.T) {
	delegate := streaming.WithoutConversion()
	list := &corev1.ConfigMapList{}
	for i := range 1000 {
		object := configMap("acme", fmt.Sprint("c-", i))
		object.Data["k"] = strings.Repeat("v", i)
		list.Items = append(list.Items, object)
	}
	single := configMap(tenant.System, "c")
	for name, obj := range map[string]runtime.Object{"list": list, "empty list": &corev1.ConfigMapList{}, "object": &single} {
		t.Run(name, func(t *testing.T) {
			var want bytes.Buffer
			info, ok := runtime.SerializerInfoForMediaType(delegate.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
			if !ok {
				t.Fatal("upstream has no protobuf")
			}
			if err := delegate.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(obj, &want); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			wrapped := Wrap(delegate, testLinks)
			info, _ = runtime.SerializerInfoForMediaType(wrapped.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
			if err := wrapped.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(obj, &got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("%d bytes, want upstream's %d", got.Len(), want.Len())
			}
		})
	}
}

// TestAnswersAreInFewPieces checks that upstream, when it answers, encodes lists by the
// method that writes them in few pieces.
func TestAnswersAreInFewPieces(t *testing.T) {
	list := &corev1.ConfigMapList{}
	for i := range 1000 {
		object := configMap("acme", fmt.Sprint("c-", i))
		object.Data["k"] = strings.Repeat("v", 1000)
		list.Items = append(list.Items, object)
	}
	for name, upstream := range map[string]runtime.NegotiatedSerializer{"converted": streaming, "not converted": streaming.WithoutConversion()} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Header.Set("Accept", runtime.ContentTypeProtobuf)
		answer := &countingResponse{ResponseRecorder: httptest.NewRecorder()}
		responsewriters.WriteObjectNegotiated(Wrap(upstream, testLinks), negotiation.DefaultEndpointRestrictions,
			corev1.SchemeGroupVersion, answer, request, http.StatusOK, list, false)
		if size := answer.Body.Len(); size < 1000*1000 || answer.writes > size/pieceSize+2 {
			t.Errorf("%s: %d bytes in %d pieces", name, size, answer.writes)
		}
	}
}

type countingResponse struct {
	*httptest.ResponseRecorder
	writes int
}

func (r *countingResponse) Write(p []byte) (int, error) {
	r.writes++
	return r.ResponseRecorder.Write(p)
}
