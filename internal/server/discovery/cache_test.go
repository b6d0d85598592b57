package discovery

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestCacheIsBounded adds documents of a third of what may be cached, of several spaces, again and again.
func TestCacheIsBounded(t *testing.T) {
	c := newBoundedCache[string]()
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
	for i := range 2 * cacheSize {
		c.put(fmt.Sprint(i), "", 1)
	}
	if n, bytes := c.entries.Len(), c.bytes.Load(); n != cacheSize || bytes != cacheSize {
		t.Errorf("%d small documents of %d bytes are cached", n, bytes)
	}
}

// TestPutAtOnce caches values of one key at once: what has taken the place of another is all that counts.
func TestPutAtOnce(t *testing.T) {
	c := newBoundedCache[int]()
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

// numbered serves a document that is one of several.
type numbered int

func (numbered) ServeHTTP(http.ResponseWriter, *http.Request) {}

// TestMade makes a document when its tag is another one, and when nobody has asked for it for a while.
func TestMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, times := newBuiltCache(), 0
		expect := func(tag string, want int) {
			t.Helper()
			got, err := c.getOrCreate("key", tag, func() (http.Handler, int64, error) {
				times++
				return numbered(times), 1, nil
			})
			if got != numbered(want) || err != nil {
				t.Errorf("got the one made as number %v, want %d: %v", got, want, err)
			}
		}
		expect("one", 1)
		for range 3 {
			time.Sleep(unasked - time.Second)
			expect("one", 1)
		}
		expect("two", 2)
		time.Sleep(unasked + time.Second)
		if n, bytes := c.entries.Len(), c.bytes.Load(); n != 0 || bytes != 0 {
			t.Errorf("%d documents of %d bytes are kept that nobody asks for", n, bytes)
		}
		expect("two", 3)
		time.Sleep(2 * unasked) // no timer is left
	})
}

// TestMadeMeanwhile asks for the document of a later state while that of an earlier one is being made.
func TestMadeMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, goOn := newBuiltCache(), make(chan struct{})
		go func() {
			_, _ = c.getOrCreate("key", "one", func() (http.Handler, int64, error) {
				<-goOn
				return numbered(1), 1, nil
			})
		}()
		synctest.Wait()
		got, err := c.getOrCreate("key", "two", func() (http.Handler, int64, error) { return numbered(2), 1, nil })
		if got != numbered(2) || err != nil {
			t.Errorf("got the document of %v: %v", got, err)
		}
		close(goOn)
		time.Sleep(2 * unasked) // no timer is left
	})
}
