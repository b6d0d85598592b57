package published

import (
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// sources are the objects of the system space that are published, or say that they are by
// an invalid annotation.
type sources struct {
	// changed is called with each object that becomes or was one of them, or has another
	// version.
	changed func(Object)

	mu  sync.RWMutex
	all map[Object]source
	// inside counts the published objects in each namespace.
	inside map[string]int
}

// source is what is known of an object.
type source struct {
	// version is the resource version of a published object. It is empty for an object that
	// is not published because of the invalid value of its annotation: the server refuses
	// these, but may have one from before.
	version, invalid string
}

func newSources(changed func(Object)) *sources {
	return &sources{changed: changed, all: map[Object]source{}, inside: map[string]int{}}
}

// version returns the resource version of a published object.
func (s *sources) version(o Object) (string, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	version := s.all[o].version
	return version, version != ""
}

// invalidValue returns the annotation of an object that is not published because of it.
func (s *sources) invalidValue(o Object) (string, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	known, ok := s.all[o]
	return known.invalid, ok && known.version == ""
}

// hasObjectsIn reports whether there are published objects in a namespace.
func (s *sources) hasObjectsIn(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.inside[namespace] > 0
}

// list returns the objects in the order in which they are copied.
func (s *sources) list() []Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(s.all), compareObjects)
}

// put notes what an object is, nil if it is no source, and calls changed.
func (s *sources) put(o Object, now *source) {
	s.mu.Lock()
	old, known := s.all[o]
	if known == (now != nil) && (now == nil || *now == old) {
		s.mu.Unlock()
		return
	}
	before := s.inside[o.Namespace]
	after := before
	if old.version != "" {
		after--
	}
	delete(s.all, o)
	if now != nil {
		s.all[o] = *now
		if now.version != "" {
			after++
		}
	}
	if s.inside[o.Namespace] = after; after == 0 {
		delete(s.inside, o.Namespace)
	}
	s.mu.Unlock()
	if o.Namespace != "" && (before == 0) != (after == 0) {
		s.changed(namespaceObject(o.Namespace))
	}
	s.changed(o)
}

// sourcesOf observes one resource in the system space.
type sourcesOf struct {
	*sources
	resource schema.GroupResource
}

func (s sourcesOf) object(o *metav1.PartialObjectMetadata) Object {
	return Object{Resource: s.resource, Namespace: o.Namespace, Name: o.Name}
}

func (s sourcesOf) Set(o *metav1.PartialObjectMetadata) {
	var now *source
	switch {
	case o.DeletionTimestamp != nil:
	case tenant.IsPublished(o.Annotations):
		now = &source{version: o.ResourceVersion}
	case !tenant.IsValidPublished(o.Annotations):
		now = &source{invalid: o.Annotations[tenant.PublishedAnnotation]}
	}
	s.put(s.object(o), now)
}

func (s sourcesOf) Delete(o *metav1.PartialObjectMetadata) { s.put(s.object(o), nil) }

func (s sourcesOf) Replace(objects []*metav1.PartialObjectMetadata) {
	there := make(map[Object]bool, len(objects))
	for _, o := range objects {
		there[s.object(o)] = true
		s.Set(o)
	}
	for _, o := range s.list() {
		if o.Resource == s.resource && !there[o] {
			s.put(o, nil)
		}
	}
}
