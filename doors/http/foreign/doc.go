// Package foreign holds tests with validators that know nothing of AI Bridge: those of
// the people who define OpenAPI, AsyncAPI and Thing Descriptions.
package foreign
