package storage

import (
	"fmt"
	"io"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Custom resources are converted while they are encoded and decoded, by the webhook of
// their definition if it has one. Upstream lets a webhook change any annotation. With
// another tenant in the annotation, the object would be in another space.

// Encode implements runtime.Encoder.
func (c *foreignCodec) Encode(obj runtime.Object, w io.Writer) error {
	owner, err := tenantOf(obj)
	if err != nil {
		return err
	}
	data, err := runtime.Encode(c.Codec, obj)
	if err != nil {
		return err
	}
	if converted := ownerIn(data); converted != owner {
		return fmt.Errorf("the conversion webhook of %s changes the annotation %s, which belongs to the server: "+
			"it must return annotations as they are", c.kind.GroupKind(), tenant.Former(tenant.Annotation))
	}
	if gjson.GetBytes(data, itemsField).Exists() && !hasItems(obj) {
		return errItems(c.kind.GroupKind(), gjson.GetBytes(data, "metadata.name").String(),
			"the conversion webhook makes this field of the root, by which an object is taken for a list")
	}
	_, err = w.Write(data)
	return err
}

// ownerIn returns the space of a stored custom resource.
func ownerIn(data []byte) tenant.Name {
	if annotation := gjson.GetBytes(data, annotationPath); annotation.Exists() {
		return tenant.Name(annotation.String())
	}
	return tenant.System
}
