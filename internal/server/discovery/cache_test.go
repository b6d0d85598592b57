package discovery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestCacheIsBounded adds documents of a third of what may be cached, of several spaces, again and again.
func TestCacheIsBounded(t *testing.T) {
	c := newDocumentCache[string]()
	for range 3 {
		for i := range 5 {
			c.add(fmt.Sprint(i), &cacheEntry[string]{bytes: cacheBytes / 3})
		}
	}
	if n, bytes := c.values.Len(), c.bytes.Load(); n != 3 || bytes != 3*(cacheBytes/3) {
		t.Errorf("%d documents of %d bytes are cached", n, bytes)
	}
	if _, ok := c.values.Get("4"); !ok {
		t.Error("the last one is not cached")
	}
	c.add("large", &cacheEntry[string]{bytes: 2 * cacheBytes})
	if _, ok := c.values.Get("large"); !ok || c.values.Len() != 1 {
		t.Errorf("with a large one, %d are cached", c.values.Len())
	}
	for i := range 2 * cacheSize {
		c.add(fmt.Sprint(i), &cacheEntry[string]{bytes: 1})
	}
	if n, bytes := c.values.Len(), c.bytes.Load(); n != cacheSize || bytes != cacheSize {
		t.Errorf("%d small documents of %d bytes are cached", n, bytes)
	}
}

// TestMade makes a document when its tag is another one, and when nobody has asked for it for a while.
func TestMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, times := newDocumentCache[int](), 0
		expect := func(tag string, want int) {
			t.Helper()
			got, err := c.made("key", tag, func() (int, int64, error) {
				times++
				return times, 1, nil
			})
			if got != want || err != nil {
				t.Errorf("got the one made as number %d, want %d: %v", got, want, err)
			}
		}
		expect("one", 1)
		for range 3 {
			time.Sleep(unasked - time.Second)
			expect("one", 1)
		}
		expect("two", 2)
		time.Sleep(unasked + time.Second)
		if n, bytes := c.values.Len(), c.bytes.Load(); n != 0 || bytes != 0 {
			t.Errorf("%d documents of %d bytes are kept that nobody asks for", n, bytes)
		}
		expect("two", 3)
		time.Sleep(2 * unasked) // no timer is left
	})
}

// TestMadeMeanwhile asks for the document of a later state while that of an earlier one is being made.
func TestMadeMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, goOn := newDocumentCache[string](), make(chan struct{})
		go func() {
			_, _ = c.made("key", "one", func() (string, int64, error) {
				<-goOn
				return "of one", 1, nil
			})
		}()
		synctest.Wait()
		got, err := c.made("key", "two", func() (string, int64, error) { return "of two", 1, nil })
		if got != "of two" || err != nil {
			t.Errorf("got the document %q: %v", got, err)
		}
		close(goOn)
		time.Sleep(2 * unasked) // no timer is left
	})
}
