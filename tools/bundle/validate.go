package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
)

var validators = validator.Validators{
	validation.ClusterServiceVersionValidator,
	validation.CustomResourceDefinitionValidator,
	validation.BundleValidator,
	validation.ObjectValidator,
	validation.OperatorHubV2Validator,
	validation.StandardCapabilitiesValidator,
	validation.StandardCategoriesValidator,
	validation.AlphaDeprecatedAPIsValidator,
	validation.GoodPracticesValidator,
}

// validate prints what operator-framework warns of in a bundle, and returns what is wrong.
func validate(dir string) error {
	bundle, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return err
	}
	version, err := kubernetes()
	if err != nil {
		return err
	}
	var failures []error
	for _, result := range validators.Validate(append(bundle.ObjectsToValidate(), map[string]string{"k8s-version": version})...) {
		for _, warning := range result.Warnings {
			fmt.Println(warning.Error())
		}
		for _, failure := range result.Errors {
			failures = append(failures, failure)
		}
	}
	return errors.Join(failures...)
}

// kubernetes returns the version whose removed APIs the bundle must not use, that of the
// types of this module.
func kubernetes() (string, error) {
	build, _ := debug.ReadBuildInfo()
	for _, dependency := range build.Deps {
		if version, ok := strings.CutPrefix(dependency.Version, "v0."); ok && dependency.Path == "k8s.io/api" {
			minor, _, _ := strings.Cut(version, ".")
			return "1." + minor, nil
		}
	}
	return "", errors.New("the binary does not know the version of k8s.io/api")
}
