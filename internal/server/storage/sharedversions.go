package storage

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// sharedVersions are the codecs of definitions that spaces share, one for each version. Each version has one watch cache for all
// spaces, which an object that cannot be converted to it would stop for everybody.
type sharedVersions struct {
	mu sync.Mutex
	of map[schema.GroupResource][]*runtime.Codec
}

// add adds the codec of a version of a resource, and returns what removes it.
func (v *sharedVersions) add(resource schema.GroupResource, codec runtime.Codec) (remove func()) {
	if v == nil {
		return func() {}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.of[resource] = append(v.of[resource], &codec)
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.of[resource] = slices.DeleteFunc(v.of[resource], func(of *runtime.Codec) bool { return of == &codec })
		if len(v.of[resource]) == 0 {
			delete(v.of, resource)
		}
	}
}

// codecs returns those of a resource.
func (v *sharedVersions) codecs(resource schema.GroupResource) []*runtime.Codec {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.of[resource])
}

// converts returns what refuses an object of a space that cannot be converted to every version of a definition which spaces share. What is
// there already may be let go.
func (s *Space) converts(n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	if s.sharedVersions == nil || !n.IsSpace() {
		return func(runtime.Object) error { return nil }
	}
	was := contentOf(before)
	return func(after runtime.Object) error {
		codecs := s.sharedVersions.codecs(s.resource)
		if len(codecs) < 2 {
			return nil
		}
		data, err := runtime.Encode(s.codec, after)
		for i := 0; i < len(codecs) && err == nil; i++ {
			_, _, err = (*codecs[i]).Decode(data, nil, nil)
		}
		if err == nil || was != nil && equality.Semantic.DeepEqual(was, contentOf(after)) {
			return nil
		}
		return apierrors.NewInternalError(fmt.Errorf("the object is not stored, because it cannot be converted to every version of its definition, which all spaces share: %w", err))
	}
}

// contentOf returns a copy of what is in a custom resource beside its metadata, nil if there is none.
func contentOf(obj runtime.Object) map[string]any {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok || object == nil {
		return nil
	}
	content := runtime.DeepCopyJSON(object.Object)
	delete(content, "metadata")
	return content
}
