package storage

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// sharedVersions are the codecs of definitions that spaces share, one for each version. Each version has one watch
// cache for all spaces, which an object that cannot be converted to it would stop for everybody.
type sharedVersions struct {
	mu sync.Mutex
	of map[schema.GroupResource][]*foreignCodec
}

// add adds the codec of a version of a resource, and returns what removes it.
func (v *sharedVersions) add(resource schema.GroupResource, codec *foreignCodec) (remove func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.of[resource] = append(v.of[resource], codec)
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.of[resource] = slices.DeleteFunc(v.of[resource], func(of *foreignCodec) bool { return of == codec })
		if len(v.of[resource]) == 0 {
			delete(v.of, resource)
		}
	}
}

// codecs returns those of a resource.
func (v *sharedVersions) codecs(resource schema.GroupResource) []*foreignCodec {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.of[resource])
}

// convert returns an error if what etcd has of an object cannot be converted to all versions.
func (v *sharedVersions) convert(resource schema.GroupResource, data []byte) error {
	for _, codec := range v.codecs(resource) {
		if _, _, err := codec.Decode(data, nil, codec.newObject()); err != nil {
			return err
		}
	}
	return nil
}

// converts returns what refuses an object of a space that cannot be converted to every version of a definition which
// spaces share. What is there already, and could not be either, may be let go.
func (s *Space) converts(n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	if s.options.sharedVersions == nil || !n.IsSpace() {
		return func(runtime.Object) error { return nil }
	}
	convert := func(obj runtime.Object) error {
		data, err := runtime.Encode(s.codec, obj)
		if err != nil {
			return err
		}
		return s.options.sharedVersions.convert(s.resource, data)
	}
	var was runtime.Object
	if before != nil {
		was = before.DeepCopyObject()
	}
	return func(after runtime.Object) error {
		if len(s.options.sharedVersions.codecs(s.resource)) < 2 {
			return nil
		}
		err := convert(after)
		if err == nil || was != nil && equality.Semantic.DeepEqual(contentOf(was), contentOf(after)) && convert(was) != nil {
			return nil
		}
		return apierrors.NewInternalError(fmt.Errorf("the object is not stored, because it cannot be converted to every version of its definition, which all spaces share: %w", err))
	}
}

// contentOf returns what is in a custom resource beside its metadata.
func contentOf(obj runtime.Object) map[string]any {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	content := maps.Clone(object.Object)
	delete(content, "metadata")
	return content
}
