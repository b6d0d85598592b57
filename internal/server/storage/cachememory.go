package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// CacheMemory bounds what memory the objects of a space take in watch caches, where stored bytes do not bound it. A map of 7 bytes in a custom
// resource takes 350 there, each version of a definition has a cache of its own, and conversion webhooks make objects larger: custom resources all count. Of others,
// what is dense does, as an empty rule of a NetworkPolicy is: 2 bytes that take 48.
type CacheMemory struct {
	// most is the bound of a space, and total that of all together, zero for none.
	most, total int64

	// mu guards what follows, the caches of all definitions and the contents of all caches.
	mu sync.Mutex
	// bytes are what the objects of spaces take in all caches, and all the sum of these.
	bytes map[tenant.Name]int64
	all   int64
	// stored are what the objects of spaces take in etcd, and allStored the sum.
	stored    map[tenant.Name]int64
	allStored int64
	// slack is what spaces have got when nothing was left of what all may have.
	slack map[tenant.Name]int64
	// lists are what lists have decoded whose requests have not ended, and allLists the sum.
	lists    map[tenant.Name]int64
	allLists int64
	// definitions have the caches of each.
	definitions map[cacheID]*definitionCaches
}

// definitionCaches are the caches of a definition, one for each version. If it is one tenant's,
// each counts as the fullest of them: those of other versions are empty while a conversion
// webhook fails, and fill when it does not. The lock of memory guards all.
type definitionCaches struct {
	memory *CacheMemory
	id     cacheID
	all    map[*contents]struct{}
	// fullest is what the fullest has, and total how many bytes all count as.
	fullest cacheFill
	total   int64
	// before is what the fullest had when the last cache ended that was complete: it holds until
	// another one is. Upstream makes caches anew when a definition changes, with the next request.
	before  cacheFill
	pending pendingWrites
}

// cacheFill is how much a cache has.
type cacheFill struct {
	bytes   int64
	objects int
}

// pendingWrites are those that no cache of a definition is known to have. Caches are behind, or
// stand, as long as a conversion webhook takes its time or fails.
type pendingWrites struct {
	// reserved is what they take, and those under way.
	reserved int64
	written  []pendingWrite
	// reached is the last version that a cache has got.
	reached uint64
}

type pendingWrite struct {
	version uint64
	bytes   int64
}

// NewCacheMemory returns a bound of so many bytes for each space, and of all together, nil without both. Zero is none.
func NewCacheMemory(most, total int64) *CacheMemory {
	if most == 0 && total == 0 {
		return nil
	}
	return &CacheMemory{most: cmp.Or(most, total), total: total, bytes: map[tenant.Name]int64{}, stored: map[tenant.Name]int64{}, slack: map[tenant.Name]int64{}, lists: map[tenant.Name]int64{}, definitions: map[cacheID]*definitionCaches{}}
}

const (
	// leastShare is which part of what all may have each may have more than it has, also when nothing is left: its controllers are to go on.
	leastShare = 64
	// fillShare is which part of that a space has whose caches are not filled when all have a quarter more than they may.
	fillShare = 16
)

// admit returns an error that names the rule and the way out if a space may not have so much more, and otherwise how much of that is slack.
//
// A space may have as much as is left with it, at most its own bound. So of two that want whatever they get each has a third, and a third is left for those who
// come. Switches share their buffers so (Choudhury and Hahne, "Dynamic Queue Length Thresholds", 1998). Whoever has less than others when little is
// left has some slack, and gets it again with what it deletes. The lock is held.
func (m *CacheMemory) admit(n tenant.Name, more int64) (slack int64, err error) {
	if now := m.bytes[n]; now+more > m.most {
		return 0, fmt.Errorf("the definitions of the space, its custom resources in all versions of them, and its objects of empty entries take %d bytes of the server's memory, and would take %d more: "+
			"%d are allowed; delete some, or leave out versions that nobody uses", now, more, m.most)
	}
	switch {
	case m.total == 0 || !m.isBeyondShare(n, more):
		return 0, nil
	case m.slack[n]+more <= m.total/leastShare:
		return more, nil
	default:
		return 0, m.errShared(n, more)
	}
}

// isBeyondShare reports whether a space would have more than its share of what all may have, with so much more. The lock is held.
func (m *CacheMemory) isBeyondShare(n tenant.Name, more int64) bool {
	return m.takes(n)+more > m.total-(m.takeAll()+more)
}

// takes returns what the objects of a space take in memory, and takeAll those of all. The lock is held.
func (m *CacheMemory) takes(n tenant.Name) int64 { return m.bytes[n] + ordinary*m.stored[n] }

func (m *CacheMemory) takeAll() int64 { return m.all + ordinary*m.allStored }

// errShared is the error of a space that may not have so much more because of what others have.
func (m *CacheMemory) errShared(n tenant.Name, more int64) error {
	return fmt.Errorf("the objects of the space take about %d bytes of the server's memory, and would take %d more, "+
		"of which all spaces together have used most; delete some, or ask the platform for more (--tenant-cache-total-bytes)", m.takes(n), more)
}

// useSlack notes that a space has got so much slack, or gives it back. The lock is held.
func (m *CacheMemory) useSlack(n tenant.Name, bytes int64) {
	if m.slack[n] = max(0, m.slack[n]+bytes); m.slack[n] == 0 {
		delete(m.slack, n)
	}
}

const (
	// ordinary is how many times its bytes in etcd an object takes in memory: a pod takes 2.5, an EndpointSlice 2.9. Stored bytes bound that, and
	// what is beyond it counts: text beside what is dense does not hide that.
	ordinary = 3
	// smallObject is how many bytes more do not count: what small objects have in their metadata.
	smallObject = 1 << 10
	// builtInCopies are those of a built-in object: one in its watch cache, and one in an informer of the server.
	builtInCopies = 2
)

// weightOf returns what an object counts that takes so many bytes of memory.
func weightOf(obj runtime.Object, bytes int) int {
	if _, custom := obj.(*unstructured.Unstructured); custom {
		return bytes
	}
	return beyondOrdinary(obj, bytes) + madeOf(obj)
}

// beyondOrdinary returns what a built-in object takes beyond what its stored bytes count for.
func beyondOrdinary(obj runtime.Object, bytes int) int {
	if bytes <= smallObject {
		return 0
	}
	return builtInCopies * max(0, bytes-smallObject-ordinary*memory.Encoded(obj))
}

// contents are the objects in one watch cache that count. The lock of memory guards all.
type contents struct {
	of *definitionCaches
	// version is that of the definition: there are two caches of one while a definition changes.
	version string
	key     func(runtime.Object) (string, error)
	held    map[string]heldObject
	bytes   int64
	// complete is whether it has all that there is.
	complete bool
	// decoded is what has been decoded of a list that is under way.
	decoded int64
}

type heldObject struct {
	of    tenant.Name
	bytes int64
}

// newCache returns the contents of the watch cache of one version of a definition, or of a built-in resource, nil without a bound.
func (m *CacheMemory) newCache(id cacheID, version string, key func(runtime.Object) (string, error)) *contents {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.definitions[id]
	if d == nil {
		d = &definitionCaches{memory: m, id: id, all: map[*contents]struct{}{}}
		m.definitions[id] = d
	}
	c := &contents{of: d, version: version, key: key, held: map[string]heldObject{}}
	d.all[c] = struct{}{}
	d.recount()
	return c
}

// filling returns the context of a list with which a cache of one tenant is filled. The list ends when the objects of the space take more
// than they may, and the cache stays without them: whatever has let so many be written, or made so much of them since, does not take
// the server's memory.
func (c *contents) filling(ctx context.Context, first bool) context.Context {
	if c == nil || c.of.id.only == "" {
		return ctx
	}
	m := c.of.memory
	if first {
		c.notListed()
	}
	return etcdstore.WithDecoded(ctx, func(_ []byte, obj runtime.Object, err error) (runtime.Object, error) {
		if err != nil {
			return nil, err
		}
		bytes := int64(memory.Of(obj))
		m.mu.Lock()
		defer m.mu.Unlock()
		if !c.isThere() {
			return obj, nil
		}
		c.decoded += bytes
		c.of.recount()
		return obj, c.of.checkFilled()
	})
}

// checkFilled returns an error if a cache is not to be filled further. The lock is held.
func (d *definitionCaches) checkFilled() error {
	m, n, takes := d.memory, d.id.only, d.lasting()
	switch {
	case takes > m.most+m.most/4:
		return fmt.Errorf("the custom resources of tenant %q take more than %d bytes of the server's memory, and a quarter more, in all versions of their definitions: "+
			"these are not in the watch cache until some have been deleted", n, m.most)
	case m.total > 0 && m.all > m.total+m.total/4 && takes > m.total/fillShare:
		return fmt.Errorf("the custom resources of all tenants take more than %d bytes of the server's memory, and a quarter more; those of tenant %q, which take %d, "+
			"are not in the watch cache until some have been deleted", m.total, n, takes)
	default:
		return nil
	}
}

// lasting returns what the space takes in all caches, of this definition when it has one cache of each version again. The lock is held.
func (d *definitionCaches) lasting() int64 {
	versions := map[string]bool{}
	for c := range d.all {
		versions[c.version] = true
	}
	return d.memory.bytes[d.id.only] - d.total + (d.fullest.bytes+d.pending.reserved)*int64(len(versions))
}

// notListed notes that a list has failed.
func (c *contents) notListed() {
	if c == nil {
		return
	}
	c.of.memory.mu.Lock()
	defer c.of.memory.mu.Unlock()
	if c.decoded > 0 && c.isThere() {
		c.decoded = 0
		c.of.recount()
	}
}

// listed notes a page of what the cache has now, the first in place of what it had.
func (c *contents) listed(list runtime.Object, first bool) {
	if c == nil {
		return
	}
	m := c.of.memory
	if first {
		m.mu.Lock()
		c.empty() // counted anew when all is set, below
		m.mu.Unlock()
	}
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		c.set(obj, memory.Of(obj))
		return nil
	})
	page, err := meta.ListAccessor(list)
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.isThere() && err == nil && page.GetContinue() == "" {
		c.complete, c.decoded = true, 0
		version, _ := storage.APIObjectVersioner{}.ParseResourceVersion(page.GetResourceVersion())
		c.of.pending.reach(version)
		c.of.recount()
	}
}

// set notes that an object is in the cache and takes so much there, none if it has been deleted.
func (c *contents) set(obj runtime.Object, taken int) {
	if c == nil {
		return
	}
	n, err := tenantOf(obj)
	if err != nil || !n.IsSpace() {
		return
	}
	bytes := int64(weightOf(obj, taken))
	c.of.memory.mu.Lock()
	defer c.of.memory.mu.Unlock()
	if bytes == 0 && len(c.held) == 0 {
		return // as in most caches
	}
	if !c.isThere() {
		return
	}
	key, err := c.key(obj)
	if err != nil {
		return // the cache refuses it
	}
	before := c.held[key].bytes
	c.add(n, bytes-before)
	if bytes < before {
		c.of.memory.useSlack(n, bytes-before)
	}
	if c.held[key] = (heldObject{n, bytes}); bytes == 0 {
		delete(c.held, key)
	}
	c.of.recount()
}

// sizeOf returns what the objects of a list take. The sizes of those that are in the cache are known.
func (c *contents) sizeOf(list runtime.Object) (bytes int64) {
	var keys []string
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		if c == nil {
			bytes += int64(memory.Of(obj))
		} else if key, err := c.key(obj); err == nil {
			keys = append(keys, key)
		}
		return nil
	})
	if c == nil {
		return bytes
	}
	c.of.memory.mu.Lock()
	defer c.of.memory.mu.Unlock()
	for _, key := range keys {
		bytes += c.held[key].bytes
	}
	return bytes
}

// filled reports whether the cache has all that there is, as far as that is known.
func (c *contents) filled() bool {
	if c == nil {
		return true
	}
	c.of.memory.mu.Lock()
	defer c.of.memory.mu.Unlock()
	return c.complete
}

// known reports whether a cache has all that there is.
func (d *definitionCaches) known() bool {
	for c := range d.all {
		if c.complete {
			return true
		}
	}
	return false
}

// isThere reports whether a cache has not been stopped. The lock is held.
func (c *contents) isThere() bool {
	_, there := c.of.all[c]
	return there
}

// add adds what a cache has of a space. The lock is held.
func (c *contents) add(n tenant.Name, bytes int64) {
	c.bytes += bytes
	if c.of.id.only == "" {
		c.of.memory.add(n, bytes)
	}
}

func (m *CacheMemory) add(n tenant.Name, bytes int64) {
	m.all += bytes
	if m.bytes[n] += bytes; m.bytes[n] == 0 {
		delete(m.bytes, n)
	}
}

// recount counts the caches of a definition of one tenant. The lock is held.
func (d *definitionCaches) recount() {
	d.fullest = cacheFill{}
	for c := range d.all {
		if bytes := max(c.bytes, c.decoded); bytes > d.fullest.bytes {
			d.fullest = cacheFill{bytes, len(c.held)}
		}
	}
	if d.known() {
		d.before = cacheFill{}
	}
	d.fullest = cacheFill{max(d.fullest.bytes, d.before.bytes), max(d.fullest.objects, d.before.objects)}
	if d.id.only == "" {
		return
	}
	total := (d.fullest.bytes + d.pending.reserved) * int64(len(d.all))
	d.memory.add(d.id.only, total-d.total)
	d.total = total
}

// reserve notes that a write takes so much more, or less, in each of some caches, and returns these. Nil stands
// for those that the definition has now, and is returned if it has none.
func (m *CacheMemory) reserve(id cacheID, in *definitionCaches, bytes int64) *definitionCaches {
	m.mu.Lock()
	defer m.mu.Unlock()
	if in == nil {
		in = m.definitions[id]
	}
	if in != nil {
		in.pending.reserved += bytes
		in.recount()
	}
	return in
}

// maxPending is how many writes of a definition are told apart that no cache has: later ones are one.
const maxPending = 256

// wrote notes the version of a write for which something is reserved.
func (p *pendingWrites) wrote(version uint64, bytes int64) {
	switch last := len(p.written) - 1; {
	case version <= p.reached:
		p.reserved -= bytes
	case last+1 == maxPending:
		p.written[last] = pendingWrite{max(p.written[last].version, version), p.written[last].bytes + bytes}
	default:
		p.written = append(p.written, pendingWrite{version, bytes})
	}
}

// reach notes that a cache has got all up to a version.
func (p *pendingWrites) reach(version uint64) {
	p.reached = max(p.reached, version)
	p.written = slices.DeleteFunc(p.written, func(w pendingWrite) bool {
		if w.version > p.reached {
			return false
		}
		p.reserved -= w.bytes
		return true
	})
}

// passed notes that a cache has got an event.
func (c *contents) passed(version uint64) {
	if c == nil || c.of.id.only == "" {
		return
	}
	c.of.memory.mu.Lock()
	defer c.of.memory.mu.Unlock()
	if c.isThere() && version > c.of.pending.reached {
		c.of.pending.reach(version)
		c.of.recount()
	}
}

// empty notes that a cache has nothing. The lock is held.
func (c *contents) empty() {
	for _, o := range c.held {
		c.add(o.of, -o.bytes)
	}
	clear(c.held)
}

// forget forgets a cache that has been stopped.
func (c *contents) forget() {
	if c == nil {
		return
	}
	d := c.of
	d.memory.mu.Lock()
	defer d.memory.mu.Unlock()
	if !c.isThere() {
		return // storages are shared with subresources, and stopped by each
	}
	delete(d.all, c)
	if !d.known() {
		d.before = d.fullest
	}
	c.empty()
	if d.recount(); len(d.all) == 0 && d.before.bytes == 0 {
		delete(d.memory.definitions, d.id)
	}
}

// count returns how many there are. The lock is held.
func (d *definitionCaches) count() int64 {
	if d == nil {
		return 0
	}
	return int64(len(d.all))
}

// Exceeded reports whether the objects of a space take more than they may: a quarter more, because of what webhooks have made of them since they were written.
func (m *CacheMemory) Exceeded(n tenant.Name) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[n] > m.most+m.most/4
}

// maySay reports whether objects of a full space may say how they are: up to an eighth more than it may have, and while there is some left for others.
func (m *CacheMemory) maySay(n tenant.Name) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[n] <= m.most+m.most/8 && (m.total == 0 || m.takeAll() <= m.total-m.total/fillShare)
}
