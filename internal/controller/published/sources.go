package published

import (
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// sources are the published objects of the system space.
type sources struct {
	// changed is called with each object that is published, is so no longer, or
	// has another version.
	changed func(Object)

	mu       sync.RWMutex
	versions map[Object]string
	// invalid are the annotations of objects that are not published because nobody knows
	// the value: the server refuses these, but may have one from before.
	invalid map[Object]string
	// inside counts the published objects in each namespace.
	inside map[string]int
}

func newSources(changed func(Object)) *sources {
	return &sources{changed: changed, versions: map[Object]string{}, invalid: map[Object]string{}, inside: map[string]int{}}
}

// version returns the resource version of a published object.
func (s *sources) version(o Object) (string, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	version, ok := s.versions[o]
	return version, ok
}

// hasObjectsIn reports whether there are published objects in a namespace.
func (s *sources) hasObjectsIn(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.inside[namespace] > 0
}

// list returns the published objects in the order in which they are copied.
func (s *sources) list() []Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(s.versions), compareObjects)
}

// put notes the version of an object, empty if it is not published, and tells.
func (s *sources) put(o Object, version string) {
	s.mu.Lock()
	old, known := s.versions[o]
	if version == "" && !known || version == old && known {
		s.mu.Unlock()
		return
	}
	before := s.inside[o.Namespace] > 0
	switch {
	case version == "":
		delete(s.versions, o)
		s.inside[o.Namespace]--
	case !known:
		s.inside[o.Namespace]++
		fallthrough
	default:
		s.versions[o] = version
	}
	if s.inside[o.Namespace] == 0 {
		delete(s.inside, o.Namespace)
	}
	after := s.inside[o.Namespace] > 0
	s.mu.Unlock()
	if o.Namespace != "" && before != after {
		s.changed(namespaceObject(o.Namespace))
	}
	s.changed(o)
}

// invalidValue returns the annotation of an object that is not published because of it.
func (s *sources) invalidValue(o Object) (string, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	value, ok := s.invalid[o]
	return value, ok
}

func (s *sources) listInvalid() []Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.invalid))
}

// putInvalid notes whether the annotation of an object has no valid value, and tells.
func (s *sources) putInvalid(o Object, value string, invalid bool) {
	s.mu.Lock()
	old, known := s.invalid[o]
	if invalid {
		s.invalid[o] = value
	} else {
		delete(s.invalid, o)
	}
	s.mu.Unlock()
	if known != invalid || old != value {
		s.changed(o)
	}
}

// sourcesOf observes one resource in the system space.
type sourcesOf struct {
	*sources
	resource schema.GroupResource
}

func (s sourcesOf) object(o *metav1.PartialObjectMetadata) Object {
	return Object{Resource: s.resource, Namespace: o.Namespace, Name: o.Name}
}

func (s sourcesOf) set(o *metav1.PartialObjectMetadata) {
	version := ""
	if tenant.IsPublished(o.Annotations) && o.DeletionTimestamp == nil {
		version = o.ResourceVersion
	}
	s.put(s.object(o), version)
	if tenant.IsValidPublished(o.Annotations) || o.DeletionTimestamp != nil {
		s.putInvalid(s.object(o), "", false)
	} else {
		s.putInvalid(s.object(o), o.Annotations[tenant.PublishedAnnotation], true)
	}
}

func (s sourcesOf) unset(o *metav1.PartialObjectMetadata) {
	s.put(s.object(o), "")
	s.putInvalid(s.object(o), "", false)
}

func (s sourcesOf) replace(objects []*metav1.PartialObjectMetadata) {
	there := make(map[Object]bool, len(objects))
	for _, o := range objects {
		there[s.object(o)] = true
		s.set(o)
	}
	for _, o := range slices.Concat(s.list(), s.listInvalid()) {
		if o.Resource == s.resource && !there[o] {
			s.put(o, "")
			s.putInvalid(o, "", false)
		}
	}
}
