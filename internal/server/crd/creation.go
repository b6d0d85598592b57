package crd

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// mayCreate returns why the user of an update must not create the definition that it
// makes. An update is authorized and admitted as one: what is said of creation, which it
// is too, is asked here, as upstream does for server-side apply. What changes objects in
// admission has changed this one as an update.
func (s *Servers) mayCreate(ctx context.Context, definition *apiextensions.CustomResourceDefinition) error {
	user, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewForbidden(definitions.GroupResource(), definition.Name, fmt.Errorf("the request has no user"))
	}
	server := s.Config.GenericConfig
	decision, reason, err := server.Authorization.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: "create", ResourceRequest: true, Name: definition.Name,
		APIGroup: definitions.Group, APIVersion: definitions.Version, Resource: definitions.Resource,
	})
	if decision != authorizer.DecisionAllow {
		if err == nil {
			err = fmt.Errorf("user %q cannot create one in this space: %s", user.GetName(), reason)
		}
		return apierrors.NewForbidden(definitions.GroupResource(), definition.Name, err)
	}
	chain, ok := server.AdmissionControl.(admission.ValidationInterface)
	if !ok || !chain.Handles(admission.Create) {
		return nil
	}
	creation := admission.NewAttributesRecord(definition.DeepCopy(), nil, definitions.GroupVersion().WithKind("CustomResourceDefinition"),
		"", definition.Name, definitions, "", admission.Create, &metav1.CreateOptions{}, false, user)
	return chain.Validate(ctx, creation, admission.NewObjectInterfacesFromScheme(apiserver.Scheme))
}
