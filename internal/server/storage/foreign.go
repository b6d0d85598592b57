package storage

import (
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// foreignCodec does not decode custom resources of other spaces by the definition of this
// one. A range of etcd may hold both, and an object that was stored by another definition
// may not be decodable.
type foreignCodec struct {
	runtime.Codec
	// foreign reports whether the custom resources of a space belong to another definition.
	foreign func(tenant.Name) bool
	// kind is the kind of the decoded objects.
	kind schema.GroupVersionKind
	// terminating, if set, reports whether the tenant of a space is being deleted.
	terminating func(tenant.Name) bool
	// undecodable, if set, is what is known of objects where many spaces share a storage.
	undecodable *undecodable
}

// annotationPath is where etcd has the tenant of a custom resource.
var annotationPath = "metadata.annotations." + strings.ReplaceAll(tenant.Former(tenant.Annotation), ".", `\.`)

// foreignLink marks objects to leave out where many spaces share a storage. Stored
// objects have no self link.
const foreignLink = "foreign"

// foreignField is the field by which selectors leave them out.
const foreignField = "tenantry.io/foreign"

// foreignAttributes adds foreignField to the attributes of objects to leave out.
func foreignAttributes(delegate storage.AttrFunc) storage.AttrFunc {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		l, f, err := delegate(obj)
		if err != nil {
			return nil, nil, err
		}
		if accessor, err := meta.Accessor(obj); err == nil && accessor.GetSelfLink() == foreignLink {
			f[foreignField] = foreignLink
		}
		return l, f, nil
	}
}

// Decode implements runtime.Decoder. Of a foreign object it returns only what is needed
// to leave it out: name, namespace and tenant.
func (c *foreignCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	owner, watched := ownerIn(data), into == nil
	if watched {
		// Watches decode into nothing, by which what has a field "items" is a list or an error.
		into = c.newObject()
	}
	if !c.foreign(owner) {
		decoded, kind, err := c.Codec.Decode(data, defaults, into)
		if err != nil && c.terminating != nil && c.terminating(owner) {
			return c.decodeAsIs(data, into)
		}
		if err != nil && watched && c.leavesOut(data) {
			c.undecodable.leave(leftOut{owner: {c.foreignObject(data, nil)}})
			c.logLeftOut(data, err)
			return c.foreignObject(data, into), &c.kind, nil
		}
		if err != nil {
			return decoded, kind, err
		}
		if watched && c.undecodable != nil {
			c.undecodable.noteSample(data)
		}
		if converted, err := tenantOf(decoded); err != nil || converted == owner {
			return decoded, kind, err
		}
		return decoded, kind, setTenant(decoded, owner)
	}
	return c.foreignObject(data, into), &c.kind, nil
}

// foreignObject returns what is needed to leave an object out.
func (c *foreignCodec) foreignObject(data []byte, into runtime.Object) *unstructured.Unstructured {
	object, ok := into.(*unstructured.Unstructured)
	if !ok {
		object = &unstructured.Unstructured{}
	}
	object.SetUnstructuredContent(map[string]any{})
	object.SetGroupVersionKind(c.kind)
	object.SetSelfLink(foreignLink)
	object.SetName(gjson.GetBytes(data, "metadata.name").String())
	object.SetNamespace(gjson.GetBytes(data, "metadata.namespace").String())
	if owner := ownerIn(data); owner != tenant.System {
		object.SetAnnotations(map[string]string{tenant.Annotation: string(owner)})
	}
	return object
}

// decodeAsIs does not convert an object: the definition may not have the version any more in which it was stored, and
// the webhook that would convert it may be gone. It is only there to be deleted with its space.
func (c *foreignCodec) decodeAsIs(data []byte, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, ok := into.(*unstructured.Unstructured)
	if !ok {
		object = &unstructured.Unstructured{}
	}
	if _, _, err := (keysCodec{Codec: unstructured.UnstructuredJSONScheme}).Decode(data, nil, object); err != nil {
		return nil, nil, err
	}
	object.SetGroupVersionKind(c.kind)
	return object, &c.kind, nil
}
