package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCacheIsBounded adds documents of a third of what may be cached, of several spaces, again and again.
func TestCacheIsBounded(t *testing.T) {
	c := newBoundedCache[string](0)
	for range 3 {
		for i := range 5 {
			c.put(fmt.Sprint(i), "", cacheBytes/3)
		}
	}
	if n, bytes := c.entries.Len(), c.bytes.Load(); n != 3 || bytes != 3*(cacheBytes/3) {
		t.Errorf("%d documents of %d bytes are cached", n, bytes)
	}
	if _, ok := c.entries.Get("4"); !ok {
		t.Error("the last one is not cached")
	}
	c.put("large", "", 2*cacheBytes)
	if _, ok := c.entries.Get("large"); !ok || c.entries.Len() != 1 {
		t.Errorf("with a large one, %d are cached", c.entries.Len())
	}
	for i := range 1000 { // as a space has with many definitions
		c.put(fmt.Sprint(i), "", 1)
	}
	if n, bytes := c.entries.Len(), c.bytes.Load(); n != 1000 || bytes != 1000 {
		t.Errorf("%d small documents of %d bytes are cached", n, bytes)
	}
}

// TestPutAtOnce caches values of one key at once: what has taken the place of another is all that counts.
func TestPutAtOnce(t *testing.T) {
	c := newBoundedCache[int](0)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				c.put("key", i, 1)
			}
		})
	}
	all.Wait()
	if n, bytes := c.entries.Len(), c.bytes.Load(); n != 1 || bytes != 1 {
		t.Errorf("%d values of %d bytes are cached", n, bytes)
	}
}

// asks is a request for a document in a content type.
func asks(accept string) *http.Request {
	req := httptest.NewRequest(http.MethodGet, openAPIv2Path, nil)
	req.Header.Set("Accept", accept)
	return req
}

// documentV2 is the smallest one that can be written as protobuf.
const documentV2 = `{"swagger":"2.0","info":{"title":"t","version":"1"},"paths":{}}`

// numbered serves a document that is one of several, and counts how often it is encoded, which takes a while.
type numbered struct {
	number  int
	encoded *atomic.Int64
}

func (n *numbered) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Header.Get("Accept") == "text/html" {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	time.Sleep(time.Second)
	n.encoded.Add(1)
	_, _ = io.WriteString(w, documentV2)
}

func counted(bytes int64) func() int64 { return func() int64 { return bytes } }

// TestMade makes a document when its tag is another one, and when nobody has asked for it for a while, and encodes it
// once in each content type.
func TestMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newBuiltCaches()
		times, counts, encoded := 0, 0, atomic.Int64{}
		expect := func(accept, tag string, want int) {
			t.Helper()
			got, err := c.getOrCreate(asks(accept), "space", "key", func() state {
				return state{tag, func() int64 { counts++; return 1 }, func() (http.Handler, error) { times++; return &numbered{times, &encoded}, nil }}
			})
			if err != nil || got.Handler.(*numbered).number != want {
				t.Errorf("got the one made as number %v, want %d: %v", got, want, err)
			}
		}
		expect("text/html", "one", 1)
		for range 3 {
			time.Sleep(unasked - 2*time.Second)
			expect("application/json", "one", 1)
		}
		expect(formatV2.mediaTypes[1], "one", 1)
		expect(formatV2.mediaTypes[2], "one", 1)
		expect("application/json, "+formatV2.mediaTypes[1], "one", 1)
		if encoded.Load() != 2 || counts != 4 { // once to choose its turn, once in it, and to choose it for each content type
			t.Errorf("one document was encoded %d times in two content types, and counted %d times", encoded.Load(), counts)
		}
		expect("", "two", 2)
		time.Sleep(unasked + time.Second)
		if n, bytes := c.small.entries.Len(), c.small.bytes.Load(); n != 0 || bytes != 0 {
			t.Errorf("%d documents of %d bytes are kept that nobody asks for", n, bytes)
		}
		expect("", "two", 3)
		time.Sleep(2 * unasked) // no timer is left
	})
}

// TestTurns has spaces ask for documents at once: one large one is made at a time, also of two caches, a space waits
// for one of each other space alone and has few requests that wait, and who asks for what was made while it waited has
// that of the last state. Small ones do not wait for large ones, and stay.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v2, v3 := newBuiltCaches()
		caches := []*builtCache{v2, v3}
		var tags, made, making, encoded atomic.Int64
		ask := func(ctx context.Context, cache int, space string, bytes int64) (*built, error) {
			return caches[cache].getOrCreate(asks("").WithContext(ctx), space, space, func() state {
				tag := tags.Load()
				return state{fmt.Sprint(tag), counted(bytes), func() (http.Handler, error) {
					if bytes < largeDocument {
						return &numbered{0, &encoded}, nil
					}
					if making.Add(1) > 1 {
						t.Error("two are made at once")
					}
					defer making.Add(-1)
					time.Sleep(time.Second)
					made.Add(1)
					return &numbered{int(tag), &encoded}, nil
				}}
			})
		}
		small, err := ask(t.Context(), 0, "small", largeDocument-1)
		if err != nil {
			t.Fatal(err)
		}
		var refused atomic.Int64
		for i := range 10 {
			go func() {
				if _, err := ask(t.Context(), i%2, "greedy", 2*cacheBytes); apierrors.IsTooManyRequests(err) {
					refused.Add(1)
				}
			}()
			synctest.Wait()
		}
		tags.Add(1)
		if want := int64(10 - 2*(1+waitingForLarge)); refused.Load() != want {
			t.Errorf("of ten requests %d are refused, want %d", refused.Load(), want)
		}
		began := time.Now()
		if document, err := ask(t.Context(), 0, "other", 2*cacheBytes); err != nil || document.tag != "1" || time.Since(began) > 6*time.Second {
			t.Errorf("after %s another space has %v: %v", time.Since(began), document, err)
		}
		began = time.Now()
		if _, err := ask(t.Context(), 0, "another", largeDocument-1); err != nil || time.Since(began) > time.Second {
			t.Errorf("a small one is there after %s: %v", time.Since(began), err)
		}
		time.Sleep(time.Minute)
		if made.Load() > 4 {
			t.Errorf("%d were made for those that waited meanwhile", made.Load())
		}
		tags.Store(0)
		_, grows := v2.getOrCreate(asks(""), "grows", "grows", func() state {
			return state{fmt.Sprint(tags.Load()), counted(tags.Add(1) * largeDocument / 2), nil}
		})
		if !apierrors.IsTooManyRequests(grows) {
			t.Errorf("one that has become large meanwhile is made as a small one: %v", grows)
		}
		tags.Store(0)
		if still, err := ask(t.Context(), 0, "small", largeDocument-1); still != small || err != nil {
			t.Errorf("large ones have taken the place of a small one: %v", err)
		}
		for i := range 3 {
			tags.Add(1)
			_, err = ask(t.Context(), i%2, "changes", 128<<20)
		}
		if seconds, _ := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || seconds != 60 {
			t.Errorf("a third large one of a space in some seconds is made, or may be had in %d seconds: %v", seconds, err)
		}
		time.Sleep(time.Minute)
		if _, err := ask(t.Context(), 0, "changes", 128<<20); err != nil {
			t.Errorf("a minute later: %v", err)
		}
		for range 5 {
			tags.Add(1)
			if _, err := ask(t.Context(), 0, sharedKey, 128<<20); err != nil {
				t.Errorf("what spaces share is not made as often as it changes: %v", err)
			}
		}
		v2.large.all <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := ask(ctx, 1, "third", largeDocument); !apierrors.IsTimeout(err) {
			t.Errorf("who waits for too long has the error: %v", err)
		}
		time.Sleep(2 * unasked)
	})
}

// TestLater checks that clients are told when to try again.
func TestLater(t *testing.T) {
	w := httptest.NewRecorder()
	perRequest(func(*http.Request) (http.Handler, error) {
		return nil, fmt.Errorf("putting together: %w", apierrors.NewTooManyRequests("others wait", 5))
	}).ServeHTTP(w, asks(""))
	var status metav1.Status
	if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "5" || status.Kind != "Status" || status.Message != "others wait" {
		t.Errorf("%d, %v: %s (%v)", w.Code, w.Header(), w.Body, err)
	}
}
