package discovery

import (
	"fmt"
	"testing"
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
