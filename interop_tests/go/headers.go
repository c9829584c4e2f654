package main

import "encoding/base64"

// Header values travel as base64 text, with null for the header value that is null.

func headerBytes(value *string) []byte {
	if value == nil {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(*value)
	if err != nil {
		panic(err)
	}
	return raw
}

func headerText(key string, value []byte) [2]*string {
	if value == nil {
		return [2]*string{&key, nil}
	}
	text := base64.StdEncoding.EncodeToString(value)
	return [2]*string{&key, &text}
}
